"""Chapters of the API of ``Tensor``: one mixin for each chapter."""
