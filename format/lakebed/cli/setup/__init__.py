"""Commands that set up indexes, links, credentials and shells."""
