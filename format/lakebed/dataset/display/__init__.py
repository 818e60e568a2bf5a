"""Datasets for display: printed tables, HTML in notebooks, drawn annotations, and the viewer."""
