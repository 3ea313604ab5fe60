"""Where the audit reads from: Python Data Sources for Spark, and what they share."""
