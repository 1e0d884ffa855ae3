<?php
// Installs WordPress as its own form does, and writes articles with comments. Answers `installed`.
set_time_limit(0);
define('WP_INSTALLING', true);
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
add_filter('pre_wp_mail', '__return_true');
wp_install('A site', 'editor', 'editor@site.test', true, '', 'a password');
$wp_rewrite->set_permalink_structure('/%postname%/');
update_option('home', "http://{$_SERVER['HTTP_HOST']}");
update_option('siteurl', "http://{$_SERVER['HTTP_HOST']}");
$articles = (int) getenv('BLOG_ARTICLES');
for ($each = 1; $each <= $articles; $each++) {
    $words = implode(' ', array_map(fn ($place) => 'word' . $each * $place % 500, range(1, 400)));
    $article = wp_insert_post([
        'post_title' => "Article $each",
        'post_name' => "article-$each",
        'post_content' => "<!-- wp:paragraph --><p>$words</p><!-- /wp:paragraph -->",
        'post_status' => 'publish',
        'post_author' => 1,
    ]);
    for ($comment = 0; $comment < 5; $comment++) {
        wp_insert_comment([
            'comment_post_ID' => $article,
            'comment_author' => "Reader $comment",
            'comment_content' => "I think $words",
            'comment_approved' => 1,
        ]);
    }
}
$wp_rewrite->flush_rules(false);
echo 'installed';
