"""Values of any accepted kind -> encoded samples of one tensor, and what the tensor learns from them.

Nothing here knows what a tensor holds already.
"""
