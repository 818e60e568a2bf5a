"""Values of many rows: arithmetic, comparisons, reductions, keys and order of columns."""
