"""Pictures of a trace. A layout without I/O turns rows into marks. This package turns the marks into SVG, and the live page
turns them into elements of the page.
"""

PICTURES = ("sequence", "log", "groups", "windows")
"""The kinds of pictures that users can choose."""
