"""Credentials that a store accepts, from those that a user gives or does not give: one module per kind of store.

The folder `stores` makes requests with them.
"""
