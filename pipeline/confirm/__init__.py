"""Confirm a cause: slow a suspect gently for some seconds, and measure whether anything else gets better."""
