"""The facade: Dataset, Tensor, views, infos, printed forms, pickling; one mixin for each chapter of the API.

Methods check what they are given and call the rooms below. Nothing below imports from here.
"""
