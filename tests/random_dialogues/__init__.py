"""Random dialogues with a broker: recorded on a real Kafka by scripts/record dialogues, replayed by tests/test_dialogues.py.

symbols   messages as JSON, in which ids and names are symbols
replay    a recorded dialogue, and replaying it on a broker
playing   makes a random dialogue while it runs on several brokers at once
asking    the common part of all subjects; `subjects` lists the subjects
"""
