"""Importer of folders of files."""
