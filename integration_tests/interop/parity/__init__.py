"""The 3.x API as its users meet it: the same statements under Deep Lake 3.9.52 and under lakebed, compared."""
