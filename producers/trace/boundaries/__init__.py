"""Where requests begin and end: probes in programs, markers that programs write, and connections."""
