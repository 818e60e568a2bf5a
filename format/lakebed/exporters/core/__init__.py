"""The parts that every exporter stands on: plans, targets, the registry, and the export itself."""
