"""Small binary files of a tensor: the chunks of its samples, and facts about single samples (FORMAT.md 4)."""
