"""Files outside the dataset: reading them in, linking to them, following links. What they mean is up to `codecs`."""
