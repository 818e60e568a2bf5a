"""Importer of TFRecord files, with the descriptions of TensorFlow Datasets."""
