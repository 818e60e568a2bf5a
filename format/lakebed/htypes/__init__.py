"""What a value means: the htypes and how values of each become encoded samples and come back. Pure: no I/O."""
