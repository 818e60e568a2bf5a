"""Syntax to bound expressions: names to columns, constants to values, types checked."""
