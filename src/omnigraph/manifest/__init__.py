"""What is true about a graph: its published state, its branches and commits, and who may change them now."""
