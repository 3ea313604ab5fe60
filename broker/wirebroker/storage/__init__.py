"""A log directory in Kafka's own format, as used with `--data DIR`. `kafkawire.disk` reads and writes each kind of file.

store                 the data directory as a whole; the only part that the engine uses
loading, changes      a start restores the cluster from the directory; changes of the cluster go to the metadata
upkeep, moves         tasks for all logs (jobs, syncs, deletions); moves between log directories
log, segment          a partition's files as a `core.logs.Log`, to which `core.partition` writes
recovery, inspection  what a partition's folder holds at a start, and whether its files fit each other
compaction            rewrites closed segments of a compacted topic without the records that are no longer needed
directory, locking    the log directories of the brokers, and the lock of each
metadata              topics, settings and producer ids: __cluster_metadata-0
"""
