"""Files outside the dataset: reading them, linking to them, following links; `codecs` decodes their content."""
