"""Whole snapshots out of a graph: exports and copies."""
