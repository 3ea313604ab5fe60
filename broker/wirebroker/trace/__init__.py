"""The trace of requests, responses, the broker's decisions and faults. The trace consists of typed rows, which the recorder
keeps in a ring buffer and passes to sinks.
"""
