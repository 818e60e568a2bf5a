"""What every room stands on and nobody opens a dataset for: the process, the clock, progress bars, missing names."""
