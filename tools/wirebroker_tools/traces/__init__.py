"""Reads traces: saved files of any size, folded rows, time lines, scenarios and the history of groups."""
