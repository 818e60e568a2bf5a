"""Credentials for stores, from the user's or from the usual places: one module per kind of store.

The folder `stores` uses them for requests.
"""
