"""Deep Lake 3.9.52, killed at any of its writes: recordings, and what it makes of the repaired datasets."""
