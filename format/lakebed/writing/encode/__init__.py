"""Values of any accepted kind -> encoded samples of one tensor, and the resulting changes of its settings.

`column` is the entry; it calls the other modules, which never call back. No module here reads the samples of a tensor.
"""
