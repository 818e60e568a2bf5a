"""Open datasets of one process: their register, closing at exit, publishing in the background, and pickling."""
