"""The exactly-once audit on Spark: what a Kafka stored is data, and this says whether delivery was exactly once.

sources/    Python Data Sources: segment files, a live broker; the trace and the application's journal
checks      what the stored batches say of themselves (DataFrame → DataFrame)
contents    the same record stored again, by what is in it
reconcile   what the application meant to send, against what is stored
replay      what other rules would have made of the same arrivals
report      summary.json, Parquet, one HTML page
job         all of it, in order; `live` keeps it current while traffic runs
"""
