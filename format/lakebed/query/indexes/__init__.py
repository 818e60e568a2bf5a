"""Indexes of vectors and of words: their contents and files, and their use by ORDER BY.

corpus           BM25 scores of rows, with an index and without
chunks           rows of a version that a segment covers: the rows of the chunks from which it was built
segments         segments as bytes
registry         indexes of a dataset: the side file `.lakebed/indexes.json`
bm25, hnsw       segments of words and of vectors; `graph` checks graphs, `codes` stores vectors as bytes
making           create, update, drop and list indexes; `building` writes their segments
search           searches for ORDER BY
"""
