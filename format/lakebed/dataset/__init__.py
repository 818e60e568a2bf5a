"""The facade: Dataset, Tensor, views, infos, printed forms, pickling; one mixin for each chapter of the API.

Methods check their arguments and call the packages below. Those packages do not import this one.
"""
