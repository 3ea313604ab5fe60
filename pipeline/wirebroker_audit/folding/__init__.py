"""Folds batches into runs; continues an audit from an earlier report."""
