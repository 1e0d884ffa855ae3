<?php
// A page of a blog: libraries, options and posts from the database, a fragment from a cache of files, a template.
// It says in headers which thread made it, when, and how long each of its phases took.

$arrived = microtime(true);
$phases = [];

/** Do a part of the work, and keep how long it took. */
function phase(string $name, callable $work): mixed
{
    global $phases;
    $begin = hrtime(true);
    try {
        return $work();
    } finally {
        $phases[$name] = ($phases[$name] ?? 0) + (hrtime(true) - $begin) / 1e9;
    }
}

$blog = getenv('BLOG_FOLDER');
$kind = $_GET['page'] ?? 'home';
$number = (int) ($_GET['number'] ?? 1);

phase('include', function () use ($blog) {
    foreach (glob("$blog/libraries/*.php") as $library) {
        require_once $library;
    }
});

$database = phase('query', function () {
    mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
    return new mysqli('127.0.0.1', 'blog', 'blog', 'blog', (int) getenv('BLOG_DATABASE_PORT'));
});

/** All rows that a question has. */
function ask(string $question): array
{
    global $database;
    return phase('query', fn () => $database->query($question)->fetch_all(MYSQLI_ASSOC));
}

/** What another service recommends beside a post. A refused connection is tried again. */
function recommendations(int $number): string
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
function fragment(string $name): string
{
    global $blog;
    $file = fopen("$blog/cache/$name", 'r');
    flock($file, LOCK_SH);
    $text = stream_get_contents($file);
    flock($file, LOCK_UN);
    fclose($file);
    return $text;
}

/** Places of a word in the index of the search. */
function search(int $number): int
{
    global $blog;
    $index = fopen("$blog/index/words", 'r');
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

$options = array_column(ask('SELECT name, value FROM options'), 'value', 'name');
$posts = match ($kind) {
    'post' => ask("SELECT * FROM posts WHERE post = $number"),
    'search' => ask("SELECT * FROM posts WHERE post % 97 = $number % 97 LIMIT 10"),
    default => ask("SELECT * FROM posts WHERE category = $number % 20 ORDER BY written DESC LIMIT 10"),
};
foreach ($posts as &$post) {
    $post['author'] = ask("SELECT name FROM people WHERE person = {$post['person']}")[0]['name'];
    $post['comments'] = ask("SELECT body FROM comments WHERE post = {$post['post']} LIMIT 5");
}
unset($post);
if ($kind === 'post') {
    phase('query', fn () => $database->query('UPDATE hits SET hits = hits + 1 WHERE page = 1'));
    $beside = phase('recommend', fn () => recommendations($number));
} else {
    $beside = '';
}
$sidebar = phase('cache', fn () => fragment('sidebar'));
$found = $kind === 'search' ? phase('search', fn () => search($number)) : 0;
$database->close();

ob_start();
?>
<!doctype html><html><head><title><?= htmlspecialchars($options['title']) ?></title></head><body>
<nav><?php for ($each = 0; $each < 40; $each++): ?><a href="?page=archive&amp;number=<?= $each ?>"><?= blog_call($each) ?></a> <?php endfor ?></nav>
<?php foreach ($posts as $post): ?>
<?php for ($each = 0; $each < 30000 / count($posts); $each++) { $post['title'] = blog_filter($post['title'], $each); } ?>
<article><h2><?= htmlspecialchars($post['title']) ?></h2><p>by <?= htmlspecialchars($post['author']) ?></p>
<?php foreach (explode("\n", $post['body']) as $paragraph): ?><p><?= preg_replace('/\b(\w{9,})\b/', '<em>$1</em>', htmlspecialchars($paragraph)) ?></p><?php endforeach ?>
<?php foreach ($post['comments'] as $comment): ?><blockquote><?= htmlspecialchars($comment['body']) ?></blockquote><?php endforeach ?>
</article>
<?php endforeach ?>
<aside><?= htmlspecialchars($beside) ?> <?= $sidebar ?> <?= $found ?></aside></body></html>
<?php
$page = ob_get_clean();
header('X-Thread: ' . getmypid());
header('X-Begin: ' . sprintf('%.6f', $arrived));
header('X-End: ' . sprintf('%.6f', microtime(true)));
header('X-Phases: ' . json_encode($phases));
echo $page;
