"""Requests to object stores: clients, errors, retries, concurrency."""
