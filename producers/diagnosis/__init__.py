"""What a process is doing while something is wrong: its threads, and what each of them executes (S1)."""
