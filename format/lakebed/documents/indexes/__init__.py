"""Small binary files of a tensor: which chunks hold its samples, and what is known of single samples (FORMAT.md 4)."""
