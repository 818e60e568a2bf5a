"""The commit graph: what a version holds, how it is opened, how a new one is published. Knows no samples."""
