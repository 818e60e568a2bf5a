"""Commands that look at datasets."""
