"""Commands that find and mend damage."""
