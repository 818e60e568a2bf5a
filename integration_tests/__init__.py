"""Tests with real processes and servers: Airbyte sources, PostgreSQL, kills, Deep Lake 3.9.52."""
