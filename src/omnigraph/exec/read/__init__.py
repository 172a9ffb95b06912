"""Plans and snapshots -> rows: what a query runs on."""
