"""Edge tables -> adjacencies of dense integers in both directions, which traversals follow without reading a string."""
