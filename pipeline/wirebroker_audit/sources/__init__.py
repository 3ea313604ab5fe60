"""The audit's Data Sources for Spark, and their common parts."""
