"""Shipped with the library: conformance suites for third parties, and storages that fail on purpose.

Nothing outside tests imports from here.
"""
