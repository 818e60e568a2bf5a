"""Data sets that other libraries write come in as these libraries read them."""
