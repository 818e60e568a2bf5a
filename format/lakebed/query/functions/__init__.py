"""Functions of the query language, a module for each kind of values; none knows of tables, or reads anything."""
