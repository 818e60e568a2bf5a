"""Commands that bring data in and out."""
