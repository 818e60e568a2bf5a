"""Indexes of vectors and of words: what they hold, where they lie, and how ORDER BY uses them.

words, corpus    texts to words; BM25 scores of rows, with an index and without
chunks           which rows of a version a segment holds: those of the very chunks that it was made of
segments         segments as bytes
registry         which indexes a dataset has: the side file `.lakebed/indexes.json`
bm25, hnsw       segments of both kinds
making           create, update, drop, list
search           what an ORDER BY looks for, and how it is found
"""
