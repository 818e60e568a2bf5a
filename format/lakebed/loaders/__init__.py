"""Streaming rows into training: the order of samples, what is read ahead, batches, and thin adapters to frameworks.

Nothing here writes. A framework is imported by its own adapter alone, when that adapter is used.
"""
