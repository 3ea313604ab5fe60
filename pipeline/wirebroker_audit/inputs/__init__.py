"""What the user gives beside the log: a journal, a trace, policies."""
