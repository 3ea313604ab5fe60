"""kafkawire: the Kafka wire protocol, pure: framing, messages of every API and version, record batches."""
