"""From bytes to rows: batches and records as Arrow. No Spark here."""
