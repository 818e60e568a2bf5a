"""Rows -> values, in flow order: select, locate, fetch (and verify), decode, scan. Never imports writing."""
