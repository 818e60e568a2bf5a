"""The viewer in a real browser: what is drawn, how it moves, what it refuses."""
