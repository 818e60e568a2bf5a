"""Key -> bytes: local folders, memory, object stores, and the locks that go with them.

Knows nothing of versions or tensors; no module here parses what it stores.
"""
