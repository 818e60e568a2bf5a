"""Changes of rows and samples: values that a caller gives become encoded columns, and these steps of a draft."""
