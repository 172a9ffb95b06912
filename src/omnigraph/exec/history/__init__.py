"""Exports, copies, comparisons and merges of whole snapshots."""
