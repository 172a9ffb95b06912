"""Tokens -> trees, by recursive descent without backtracking: one function per production of the grammar."""
