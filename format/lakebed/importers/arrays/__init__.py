"""Importers of arrays: NumPy, HDF5, Zarr, bcolz and Dask."""
