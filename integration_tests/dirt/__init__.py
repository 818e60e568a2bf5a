"""Files as tools and people really write them."""
