"""The query language: text to tokens, tokens to syntax."""
