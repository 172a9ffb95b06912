"""The write protocol, and the writers that prepare mutations and schema changes for it."""
