"""From batches to runs; how an audit goes on from an earlier report."""
