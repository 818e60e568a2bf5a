"""Values -> a published version, in flow order: coerce, append (pending blocks), seal (chunks), publish."""
