"""One sample <-> bytes: the block of encoded samples and the codecs. Pure: no I/O, no tensors, no chunks."""
