"""Key -> bytes: local folders, memory, and the locks that go with them.

Knows nothing of datasets, versions or tensors; no module here parses what it stores.
"""
