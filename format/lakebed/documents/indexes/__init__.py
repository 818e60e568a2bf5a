"""Small binary files of a tensor: the chunks of its samples, and facts about single samples (format.md 4)."""
