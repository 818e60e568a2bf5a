"""Rows -> values, in flow order: index, locate, fetch (and verify), decode, sample, scan. Never imports writing."""
