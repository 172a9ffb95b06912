"""The `omnigraph` command: arguments in, documents on stdout and messages on stderr out."""
