"""Datasets that crashes or stale writers left broken: what can be saved, and saving it.

Sound datasets never come here.
"""
