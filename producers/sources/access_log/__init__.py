"""Access logs of web servers as performance frames: files are followed, lines parsed, requests counted by interval."""
