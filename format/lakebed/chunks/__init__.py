"""Many samples <-> one chunk: packing, parsing, finding one sample. Pure: bytes in, bytes out, no I/O."""
