"""Finds problems in a trace. Each kind of finding has a detector, which reads the rows in one pass and needs only a limited
amount of memory."""
