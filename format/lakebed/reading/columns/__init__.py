"""Runs of rows as columns: chunk by chunk, without an object per row; arrays, Arrow, data frames.

Columns read through the samples of the folder above; nothing there knows them.
"""
