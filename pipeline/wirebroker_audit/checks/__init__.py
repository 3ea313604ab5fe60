"""The checks turn runs, batches and records into findings."""
