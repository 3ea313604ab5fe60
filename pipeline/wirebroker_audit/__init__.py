"""The exactly-once audit on Spark: it reads stored batches and reports whether delivery was exactly once.

command      the command line; `job` runs all stages in order; `live` keeps the findings current while traffic runs
directory    the partitions of a log directory; `splits` divides their segments, `segments` and `scan` read them
wire         the client for a live cluster; `live_log` reads its partitions
sources/     Spark Data Sources over both, and the trace
checks       sequences, epochs and transactions (DataFrame → DataFrame)
contents     records that are stored again
intended     the application's journal; `reconcile` matches it with the stored records
against_table  the application's own table as the journal: rows without a record, and how late the records are
other_rules  the arrivals of the trace judged under other rules
wording      the sentences of `wirebroker.audit.wording` as SQL columns
report/      summary.json, Parquet, one HTML page
"""
