"""Whole jobs -> their costs beside those of alternative tools, measured in one run, as ratios."""
