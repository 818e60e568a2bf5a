"""Importer of Deep Lake datasets, with their versions."""
