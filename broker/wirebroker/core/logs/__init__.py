"""The logs of partitions: the interface `Log`, the log in memory, and the module that decides which records compaction keeps."""
