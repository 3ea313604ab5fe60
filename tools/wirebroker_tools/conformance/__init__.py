"""Conformance: scenarios recorded with a real Kafka, replayed on any broker and compared step by step."""
