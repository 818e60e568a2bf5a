"""Exporters of arrays: HDF5 and Zarr."""
