"""Commands that keep datasets safe, and remove them."""
