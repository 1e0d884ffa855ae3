"""Diagnosis of a process while something is wrong: its threads, and what each of them executes (S1)."""
