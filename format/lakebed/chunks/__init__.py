"""Chunks of many samples: packing, parsing, finding one sample. Pure: bytes in, bytes out, no I/O."""
