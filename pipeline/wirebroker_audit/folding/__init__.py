"""From batches to runs, and on from what an earlier audit has read."""
