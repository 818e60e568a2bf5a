"""Importer of folders of files, and images of several kinds in one tensor."""
