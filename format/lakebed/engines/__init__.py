"""Other engines over a dataset: Arrow's scanners, and SQL by DuckDB."""
