"""Compiled hot loops of the format core. Nothing here knows of tensors or datasets; no slow twin exists."""
