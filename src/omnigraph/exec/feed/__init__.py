"""A branch and a position in its history -> the changes after it, in pages; a snapshot and the position after it."""
