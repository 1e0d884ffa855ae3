<?php
// WordPress of the lab: its database by a Unix socket, and nothing that it does by itself beside its pages.
define('DB_NAME', 'blog');
define('DB_USER', 'blog');
define('DB_PASSWORD', 'blog');
define('DB_HOST', 'localhost:' . getenv('BLOG_FOLDER') . '/database/mariadb.socket');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('SAVEQUERIES', true);
define('DISABLE_WP_CRON', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_DEFAULT_THEME', 'twentytwentyone');
foreach (['AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY',
          'AUTH_SALT', 'SECURE_AUTH_SALT', 'LOGGED_IN_SALT', 'NONCE_SALT'] as $name) {
    define($name, "$name of the lab");
}
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
