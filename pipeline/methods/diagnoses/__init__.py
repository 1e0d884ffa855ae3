"""Diagnoses for people and tools: threads by use, hottest functions, folded stacks, flame graphs."""
