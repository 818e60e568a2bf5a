"""Exporters of tables: CSV, JSON lines, Parquet and Hugging Face datasets."""
