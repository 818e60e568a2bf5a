"""The contestants: one module each, run as a program in an environment of its own."""
