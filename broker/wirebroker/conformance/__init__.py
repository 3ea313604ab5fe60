"""Conformance: scenarios that a real Kafka was put through, replayed on any broker and compared step by step."""
