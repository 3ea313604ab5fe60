"""A log directory in Kafka's own format, as used with `--data DIR`. `kafkawire.disk` reads and writes each kind of file.

store                 the data directory as a whole; the engine uses only this module
loading, changes      restore the cluster from the directory at a start; write changes of the cluster to the metadata
upkeep, moves         tasks for all logs (jobs, syncs, deletions); moves between log directories
log, segment          a partition's files as a `core.logs.Log`, to which `core.partition` writes
recovery, inspection  read a partition's folder at a start, and check that its files agree
compaction            rewrites closed segments of a compacted topic without the records that are no longer needed
directory, locking    the log directories of the brokers, and their locks
metadata              topics, settings and producer ids: __cluster_metadata-0
"""
