"""The classes that users see: Dataset, Tensor, views, infos, printed forms; one mixin for each chapter of the API.

Methods check their arguments and call the packages of lower layers, which do not import this package.
"""
