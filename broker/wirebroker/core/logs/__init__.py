"""The logs of partitions: the interface `Log`, the log in memory, and the choice of the records that compaction keeps."""
