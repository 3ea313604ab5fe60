"""Pictures of a trace. A layout without I/O turns rows into marks. The marks become SVG here, and elements of the page in the
live page."""

PICTURES = ("sequence", "log", "groups", "windows")
"""The kinds of pictures that users can choose."""
