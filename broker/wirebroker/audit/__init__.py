"""The audit in the small: was delivery exactly once? Pure Python over what is stored; the Spark audit finds the same kinds."""
