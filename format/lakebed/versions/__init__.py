"""The commit graph: content of versions, opening and publishing them. Knows no samples."""
