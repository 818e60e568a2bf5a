"""What releases wrote, which later ones open, extend and verify; `make` writes it."""
