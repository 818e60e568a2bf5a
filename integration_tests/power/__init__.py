"""Power loss: record what the kernel is told, cut the power at any moment, look at what may be left."""
