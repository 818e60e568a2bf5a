"""Programs that print speed and memory beside a peer's, measured in the same minutes."""
