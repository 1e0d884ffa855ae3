"""Web servers' access logs as performance frames: files are followed, lines parsed, requests gathered in intervals."""
