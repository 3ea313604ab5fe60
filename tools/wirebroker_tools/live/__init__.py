"""The live page. It shows a running broker, a running proxy, or a saved file."""
