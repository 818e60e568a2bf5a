"""Open datasets of one process: their register, their end, publishing in the background, and pickling."""
