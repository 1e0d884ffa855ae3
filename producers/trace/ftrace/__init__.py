"""Recording with ftrace: an own instance of the kernel's tracer, its binary pages, and what they become."""
