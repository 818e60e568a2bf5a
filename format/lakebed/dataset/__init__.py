"""Thin facades over one open dataset: Dataset, Tensor, groups, views, info. The work is done by the layers below."""
