"""From what a user gives, or does not give, to credentials that a store accepts: one module per kind of store.

What runs requests with them lives one folder up.
"""
