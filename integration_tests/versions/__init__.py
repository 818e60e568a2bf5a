"""Proofs with real processes: kills, races, leases."""
