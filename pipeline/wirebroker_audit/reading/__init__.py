"""Reads bytes into rows: batches and records as Arrow. Spark is not used here."""
