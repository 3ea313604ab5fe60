"""What went over the wire and what the broker decided: typed rows, kept in a ring and given to sinks."""
