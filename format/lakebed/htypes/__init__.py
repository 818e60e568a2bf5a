"""Htypes: the meaning of values, and the conversion of values to encoded samples and back. Pure: no I/O."""
