"""Chapters of the API of ``Dataset``: one mixin for each, side by side."""
