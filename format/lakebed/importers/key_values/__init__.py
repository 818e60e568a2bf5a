"""Importers of key-value stores: LMDB and LevelDB."""
