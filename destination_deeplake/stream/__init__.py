"""One stream and its dataset: the record of the stream, its tensors, staging of rows, the writer.

Nothing here reads the protocol or writes messages to the platform.
"""
