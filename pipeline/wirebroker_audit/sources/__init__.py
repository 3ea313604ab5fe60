"""How Spark reads a log: tasks over pieces, and streams."""
