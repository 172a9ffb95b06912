"""Bytes: objects, tables, staged changes and the ledger. The only package that imports lance or obstore."""

import os

# Before the first import of lance, which reads it then: its warnings ("No existing dataset at ..., it will be created")
# are of no use to our callers.
os.environ.setdefault("LANCE_LOG", "error")
