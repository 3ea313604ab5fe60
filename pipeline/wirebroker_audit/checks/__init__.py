"""The checks: from runs, batches and records to findings."""
