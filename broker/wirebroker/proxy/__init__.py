"""A proxy in front of a real cluster. It offers the broker's faults and trace for requests that the cluster answers."""
