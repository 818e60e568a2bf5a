"""Datasets made from others: copies with and without history, links turned into data.

No function here changes its source.
"""
