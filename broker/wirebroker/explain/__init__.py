"""Finds faults in a trace: one detector for each kind of finding reads the rows in one pass and in bounded memory."""
