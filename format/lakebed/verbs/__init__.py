"""What users of pandas, Hugging Face and NumPy type: short calls over ``ds[...]``, ``query``, ``extend`` and ``map``.

A verb of a dataset or a result gives way to a tensor or column of its name, as 3.x scripts have them. What only
chooses, orders or names is a view, and stores nothing; what makes values is stored.
"""
