"""One module per document of the format: bytes <-> frozen dataclass, and pure edits of it.

No I/O, no threads, and no knowledge of storage keys.
"""
