"""Basics of all rooms: the process, the clock, progress bars, missing names."""
