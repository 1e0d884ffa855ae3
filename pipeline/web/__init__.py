"""The local HTTP server: metrics, marks, health."""
