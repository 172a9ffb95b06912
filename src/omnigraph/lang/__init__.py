"""Text <-> syntax trees with spans. Pure: no files, no clock, no catalog."""
