"""Exporters of shards: WebDataset and MosaicML MDS."""
