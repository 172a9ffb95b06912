"""Edges as dense integers: who is linked with whom, in both directions, without reading a string."""
