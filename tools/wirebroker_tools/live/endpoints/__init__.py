"""The handlers of the tools' endpoints."""
