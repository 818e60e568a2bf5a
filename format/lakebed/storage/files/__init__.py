"""The files of a local folder: how they are written, forced to disk, locked and cleaned up."""
