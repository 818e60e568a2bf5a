"""The tensor query language: text to syntax, syntax to a plan over tables, a plan to rows and columns.

Pure reading: nothing here writes, and nothing of a query is ever evaluated as Python.
"""
