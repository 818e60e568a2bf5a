"""Transforms on a real Ray cluster, and datasets of Ray Data and Dask: `make ray`."""
