"""Streaming of rows into training: the order of samples, reading ahead, batches; `frameworks` has thin adapters.

Nothing here writes.
"""
