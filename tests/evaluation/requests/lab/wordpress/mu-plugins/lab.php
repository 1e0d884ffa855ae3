<?php
// What pages do beside WordPress's own work, and how long each part takes: a must-use plugin.
//
// Each page reads a fragment of a cache under a lock, and counts itself in a row of the database. Articles ask another
// service, searches look into an index. While a file `switches/NAME` is there, some do more: see the end.
//
// Headers say which thread made the page, when, and how long its parts took, as those of the blog do.

$lab_phases = ['include' => microtime(true) - $_SERVER['REQUEST_TIME_FLOAT']];
ob_start();

/** Do a part of the work, and keep how long it took. */
function lab_phase(string $name, callable $work): mixed
{
    global $lab_phases;
    $begin = hrtime(true);
    try {
        return $work();
    } finally {
        $lab_phases[$name] = ($lab_phases[$name] ?? 0) + (hrtime(true) - $begin) / 1e9;
    }
}

/** What another service recommends. A refused connection is tried again. */
function lab_recommendations(int $number): string
{
    $address = 'tcp://127.0.0.1:' . getenv('BLOG_RECOMMENDER_PORT');
    for ($attempt = 0; $attempt < 400; $attempt++) {
        $stream = @stream_socket_client($address, $error, $reason, 5.0);
        if ($stream !== false) {
            fwrite($stream, "$number\n");
            $answer = stream_get_contents($stream);
            fclose($stream);
            return $answer;
        }
        usleep(2000);
    }
    return '';
}

/** A part of the page that is kept in a file, which others may be writing. */
function lab_fragment(string $name): string
{
    $file = fopen(getenv('BLOG_FOLDER') . "/cache/$name", 'r');
    flock($file, LOCK_SH);
    $text = stream_get_contents($file);
    flock($file, LOCK_UN);
    fclose($file);
    return $text;
}

/** Places of a word in the index of the search. */
function lab_search(int $number): int
{
    $index = fopen(getenv('BLOG_FOLDER') . '/index/words', 'r');
    stream_set_read_buffer($index, 0);
    $blocks = intdiv(fstat($index)['size'], 4096);
    $place = $number;
    $found = 0;
    for ($step = 0; $step < 300; $step++) {
        $place = ($place * 48271 + 11) % 2147483647;
        fseek($index, ($place % $blocks) * 4096);
        $found += ord(fread($index, 4096)[0]);
    }
    fclose($index);
    return $found;
}

/** Whether something that slows pages down is switched on. */
function lab_switched(string $name): bool
{
    return file_exists(getenv('BLOG_FOLDER') . "/switches/$name");
}

add_action('template_redirect', function () {
    global $wpdb;
    lab_phase('cache', fn () => lab_fragment('sidebar'));
    $wpdb->query('UPDATE hits SET hits = hits + 1 WHERE page = 1');
    if (is_single()) {
        lab_phase('recommend', fn () => lab_recommendations(get_the_ID()));
    }
    if (is_search()) {
        lab_phase('search', fn () => lab_search(crc32(get_search_query()) % 100000 + 1));
    }
    if (lab_switched('slow-query')) {
        $wpdb->get_var('SELECT BENCHMARK(200000, SHA2(\'lab\', 512))');
    }
    if (lab_switched('sleep')) {
        lab_phase('sleep', fn () => usleep(300000));
    }
});

add_action('shutdown', function () {
    global $wpdb, $lab_phases;
    $lab_phases['query'] = array_sum(array_column($wpdb->queries, 1));
    header('X-Thread: ' . getmypid());
    header('X-Begin: ' . sprintf('%.6f', $_SERVER['REQUEST_TIME_FLOAT']));
    header('X-End: ' . sprintf('%.6f', microtime(true)));
    header('X-Phases: ' . json_encode($lab_phases));
}, 0);
