"""Datasets as people see them: printed tables, HTML in notebooks, drawn annotations, and the viewer."""
