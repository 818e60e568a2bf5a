"""Datasets made from others: copies with and without history, links turned into data.

Nothing here changes what it reads from.
"""
