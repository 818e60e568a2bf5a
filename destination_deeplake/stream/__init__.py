"""One stream -> one dataset: what is remembered of it, its tensors, where its rows go, the writer.

Nothing here reads the protocol or speaks to the platform.
"""
