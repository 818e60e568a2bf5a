"""Parts that all exporters share: plans, targets, the registry, and the export itself."""
