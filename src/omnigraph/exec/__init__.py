"""Runs plans and writes."""
