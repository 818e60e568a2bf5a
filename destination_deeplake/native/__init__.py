"""Compiled hot loops of the connector. Nothing here knows of catalogs or datasets; no slow twin exists."""
