"""The trace of requests, responses, faults and the broker's decisions. The recorder keeps the typed rows of the trace in a ring
buffer, and passes them to sinks.
"""
