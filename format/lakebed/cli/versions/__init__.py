"""Commands for versions."""
