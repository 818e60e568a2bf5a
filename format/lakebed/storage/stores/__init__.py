"""Requests to object stores: clients, errors, retries, and how many are made at once."""
