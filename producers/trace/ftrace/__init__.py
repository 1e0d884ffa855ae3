"""Recording with ftrace: a separate instance of the kernel's tracer, its binary pages, and their decoding."""
