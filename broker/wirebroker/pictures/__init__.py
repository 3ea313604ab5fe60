"""Pictures of a trace: a layout without I/O turns rows into marks, which become SVG here and elements in the live page."""

PICTURES = ("sequence", "log", "groups", "windows")
"""The kinds of pictures for people."""
