"""Importer of TFRecord files, and of what TensorFlow Datasets says of them."""
