"""Credentials under names: their storage and the search for them, with one module for each provider.

Providers return dictionaries whose secrets are `Secret` objects; no frame that raises an error holds secrets as plain
text.
"""
