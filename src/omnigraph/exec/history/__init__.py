"""Exports and copies of whole snapshots."""
