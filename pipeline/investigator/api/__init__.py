"""The answers of the API: one module for each view of the page, with its schemas."""
