"""The methods: how each one's input becomes its output, its text, its queries and its settings."""
