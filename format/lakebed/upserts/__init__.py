"""Rows by key: the newest row of every key replaces older rows, without rewriting the dataset for each new row.

The modules handle tensors and Arrow arrays, not messages of Airbyte. Each module imports only later ones of this list:
`store`, `at_once`, `merge`, `delta`, `newest`, `keying`, `keys`.
"""
