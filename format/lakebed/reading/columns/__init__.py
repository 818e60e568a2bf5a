"""Runs of rows as columns: chunk by chunk, without an object per row; arrays, Arrow, data frames.

Columns use the sample readers of the folder above, which do not import this folder.
"""
