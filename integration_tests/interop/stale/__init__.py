"""Writers of Deep Lake 3.9.52 that have a dataset open while lakebed writes it."""
