"""The `omnigraph` command: arguments -> results on stdout and messages on stderr."""
