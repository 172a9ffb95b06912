"""Physical plans and snapshots -> result rows."""
