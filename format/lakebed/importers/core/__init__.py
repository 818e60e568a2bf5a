"""The parts that every importer stands on: sources, plans, columns, reports, the registry, and the import itself."""
