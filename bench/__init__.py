"""Benchmarks: an operation -> its costs beside those of an alternative, printed and written as JSON. They assert nothing."""
