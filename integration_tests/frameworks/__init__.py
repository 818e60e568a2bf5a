"""Loaders in the frameworks that train: PyTorch, Lightning, accelerate, transformers, TensorFlow, Keras, JAX."""
