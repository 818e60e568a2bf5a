"""Relations: named columns over rows, the expressions that are computed over them, and how both are read."""
