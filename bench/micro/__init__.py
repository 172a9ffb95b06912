"""Benchmarks of single parts of the engine: `python -m bench.micro NAME`."""
