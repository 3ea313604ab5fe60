"""Where `core.partition` keeps batches: the protocol `Log`, the log in memory, and which records compaction keeps."""
