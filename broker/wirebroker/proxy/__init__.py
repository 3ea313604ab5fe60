"""A proxy in front of a real cluster. The proxy offers the same faults and the same trace as the broker, for requests to the
cluster."""
