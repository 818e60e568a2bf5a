"""Histories that both libraries write in turn."""
