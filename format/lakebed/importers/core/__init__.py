"""Parts that all importers share: sources, plans, columns, reports, the registry, and the import itself."""
