"""Importers of tables: Arrow, data frames, CSV, JSON, Parquet, Excel and Hugging Face datasets."""
