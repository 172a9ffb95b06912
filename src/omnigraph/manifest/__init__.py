"""The manifest of a graph: its published state, its branches and commits, and the locks of its writers."""
