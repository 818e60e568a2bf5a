"""Rows by key: the newest row of every key takes the place of older ones, without rewriting the dataset for each.

Knows tensors and Arrow arrays, nothing of Airbyte's messages. Dependencies run downwards: `store`, `at_once`, `merge`,
`delta`, `newest`, `keying`, `keys`.
"""
