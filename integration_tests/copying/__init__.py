"""Transforms with real processes and stores."""
