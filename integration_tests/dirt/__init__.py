"""Small files as tools and people really write them, each with what must remain of it."""
