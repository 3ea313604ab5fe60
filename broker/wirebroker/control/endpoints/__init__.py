"""The handlers of the endpoints by subject, and the forms of their requests and responses."""
