"""kafkawire: the Kafka wire protocol without I/O: frames, messages of every API and version, record batches."""
