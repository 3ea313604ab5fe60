"""A proxy before a real cluster: the same faults and trace for requests that another broker answers."""
