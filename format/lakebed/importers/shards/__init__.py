"""Importers of shards: WebDataset, MosaicML MDS, LitData and TSV files."""
