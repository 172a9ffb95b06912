"""The write protocol, and the preparation of mutations and schema changes."""
