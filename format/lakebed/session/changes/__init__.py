"""Changes of rows and samples: values given by a caller are encoded as columns, and then become steps of a draft."""
