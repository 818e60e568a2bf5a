"""Credentials for stores, given by the user or found in the usual sources: one module per kind of store.

The folder `stores` uses them for requests.
"""
