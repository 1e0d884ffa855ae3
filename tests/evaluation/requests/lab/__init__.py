"""Real web servers whose requests go wrong in ways that are known, recorded by the kernel's own trace."""
