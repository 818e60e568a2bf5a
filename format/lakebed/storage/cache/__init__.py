"""Cache of remote stores on the local disk: its files, the space that they take, and the storage on top.

The cache is never authoritative: missing, torn or damaged parts are read from the store again.
"""
