"""Values of any accepted kind -> encoded samples of one tensor, and what the tensor learns from them.

`column` is the way in; calls go down from it, never back. Nothing here knows what a tensor holds already.
"""
