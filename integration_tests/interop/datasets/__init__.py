"""Datasets made step by step by Deep Lake 3.9.52 and by lakebed in turn, and what must be in them."""
