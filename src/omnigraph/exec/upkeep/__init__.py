"""Maintenance of a graph: building indexes and checking for damage."""
