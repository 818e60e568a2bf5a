"""Chapters of the API of ``Dataset``: one mixin for each chapter."""
