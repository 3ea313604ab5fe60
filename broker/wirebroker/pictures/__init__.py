"""Pictures of a trace: pure layout from rows to marks, which become SVG here and elements in the live page."""

PICTURES = ("sequence", "log", "groups", "windows")
"""The kinds of pictures for people."""
