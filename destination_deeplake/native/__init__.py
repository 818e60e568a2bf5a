"""Compiled hot loops of the connector, without versions in Python. Nothing here knows of catalogs or datasets."""
