"""Functions of the query language, one module for each kind of values; they work on values in memory only."""
