"""The evaluator of the graph's rules: rows and changes -> violations. All writers use it."""
