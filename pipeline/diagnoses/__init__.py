"""Diagnoses as people and their tools read them: threads by use, hottest functions, folded stacks, flame graphs."""
