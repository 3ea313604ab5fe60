"""The trace of the wire, the broker's decisions and the faults: typed rows, kept in a ring and given to sinks."""
