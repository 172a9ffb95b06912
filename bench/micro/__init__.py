"""Small things, measured alone: `python -m bench.micro NAME`."""
