"""Bound queries to relations: sources, joins, filters, groups, order and limits."""
