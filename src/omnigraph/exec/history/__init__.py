"""Exports, copies and comparisons of whole snapshots."""
