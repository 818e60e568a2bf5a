"""Loaders as frameworks know them: PyTorch, TensorFlow, JAX, NumPy, and the chained form of Deep Lake 3.x.

Each framework is imported by its own module alone, when that module is used.
"""
