<?php
// What a deployment does: all that is kept of compiled programs is thrown away.
header('X-Thread: ' . getmypid());
opcache_reset();
echo "flushed\n";
