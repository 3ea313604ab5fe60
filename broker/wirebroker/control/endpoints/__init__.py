"""The handlers of the endpoints by subject, each with the forms of its requests and responses."""
