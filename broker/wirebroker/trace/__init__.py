"""The trace of requests, responses, the broker's decisions and faults. It consists of typed rows, which the recorder keeps in a
ring buffer and gives to sinks.
"""
