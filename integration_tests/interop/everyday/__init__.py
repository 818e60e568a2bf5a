"""Everyday programs under Deep Lake 3.9.52."""
