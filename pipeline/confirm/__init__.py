"""Confirm a cause: slow a suspect gently for some seconds, and see whether anything else gets better."""
