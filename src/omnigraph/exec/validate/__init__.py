"""The one evaluator of the graph's rules: rows and changes -> what is wrong with them, for every writer alike."""
