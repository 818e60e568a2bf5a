"""Htypes: the meaning of values, and how values of each become encoded samples and come back. Pure: no I/O."""
