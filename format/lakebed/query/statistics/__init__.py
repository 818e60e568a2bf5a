"""Statistics of chunks, and the rows that a condition can skip because of them."""
