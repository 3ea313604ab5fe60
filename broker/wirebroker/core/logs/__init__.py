"""The logs in which `core.partition` keeps batches: the protocol `Log`, the log in memory, and the choice of records that
compaction keeps."""
