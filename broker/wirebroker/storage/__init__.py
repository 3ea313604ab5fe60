"""A log directory in Kafka's own form: what `--data DIR` writes and reads.

names, properties, checkpoints, indexes, snapshots    one kind of file each, pure: bytes or text in and out
walking           batches in a .log file: whole, torn or damaged
segment, log      a partition's files as a `core.logs.Log`, to which `core.partition` writes
recovery          what a partition's folder holds: offsets, producers, transactions; torn tails are cut
compaction        closed segments of a compacted topic, without what is no longer needed
metadata          topics, settings and producer ids: __cluster_metadata-0
locking, store    the directory as a whole
"""
