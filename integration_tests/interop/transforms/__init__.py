"""The same transforms under Deep Lake 3.9.52 and lakebed."""
