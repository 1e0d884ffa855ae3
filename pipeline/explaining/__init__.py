"""The findings of operators in plain words: causes, culprits before victims, sentences and pages."""
