"""Real object stores on loopback, proxies that disturb or count what is sent to them, and the tests that use them.

A test starts what it needs through `servers`, and gets it stopped again; nothing here knows how to read a dataset.
"""
