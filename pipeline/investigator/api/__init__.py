"""What the API answers: one module for each view of the page, in the words of its schemas."""
