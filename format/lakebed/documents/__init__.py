"""Modules for the documents of the format, one each: bytes <-> frozen dataclass, and pure edits.

No I/O, no threads, and no knowledge of storage keys.
"""
