"""Query trees + a catalog -> typed queries, logical plans and physical operators. Pure: no clock, no files, no Lance."""
