"""What operators found, in plain words: causes, culprits before victims, sentences and pages."""
