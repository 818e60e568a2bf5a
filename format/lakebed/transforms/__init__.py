"""Functions over the items of an input, whose rows go into a dataset: on threads, processes or a cluster, resumable.

Not here: how rows become chunks (writing), how parts are adopted (session), what users call a dataset (dataset).
"""
