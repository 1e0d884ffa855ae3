"""What all producers read the machine with: /proc and files of others within bounds, clocks, redaction."""
