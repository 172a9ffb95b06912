"""Random graphs and random queries over them: a seed in, the same schema, data, history and queries out, every time."""
