"""Pools of a machine: threads of named processes by the pattern of their names, and prefork workers."""
