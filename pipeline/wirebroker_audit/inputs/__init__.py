"""The user's inputs besides the log: a journal, a trace, policies."""
