"""Methods known from pandas, Hugging Face and NumPy: short calls of ``ds[...]``, ``query``, ``extend`` and ``map``.

A verb is such a method. A tensor or column of the same name hides a verb of a dataset or result, because 3.x scripts
have such tensors. A verb that only chooses, orders or renames returns a view and stores nothing; a verb that computes
values stores them.
"""
