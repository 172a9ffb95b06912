"""Whole jobs, as a user runs them, next to what people would use instead; one run, one table, ratios."""
