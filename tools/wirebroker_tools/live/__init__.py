"""The live page: of a running broker or proxy, and of a saved file."""
