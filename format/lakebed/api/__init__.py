"""Functions of the module ``lakebed``, as Deep Lake 3.x has them: open datasets, copy them, query them."""
