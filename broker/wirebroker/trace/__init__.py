"""The trace of the wire, the broker's decisions and the faults. The trace consists of typed rows, which the recorder keeps in
a ring and gives to sinks."""
