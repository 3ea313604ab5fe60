"""The exactly-once audit on Spark: it reads stored batches and reports whether delivery was exactly once.

command      the command line; `job` runs all stages in order; `live` keeps the findings current while traffic runs
origin       the log directory or live cluster that is audited
report/      summary.json, Parquet, one HTML page, exports, the history of audits
inputs/      the application's journal, the broker's trace, policies
checks/      from runs, batches and records to findings (DataFrame → DataFrame); `batches` calls the checks of batches
sources/     Spark's tasks over the pieces of a log, and its streams
folding/     from batches to runs; how an audit continues an earlier report
logs/        which partitions a directory holds, and their pieces
reading/     from the bytes of a piece to batches and records; without Spark
spark/       the session, intermediate tables; rules and sentences of `wirebroker.audit` as SQL columns
wire         the client for a live cluster
"""
