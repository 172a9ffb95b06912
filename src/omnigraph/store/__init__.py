"""URIs and Arrow rows -> bytes in storage: objects, tables, staged changes and the ledger. Only this package imports lance or obstore."""

import os

# Lance reads this variable when it is first imported. Its warnings ("No existing dataset at ..., it will be created") do not
# help our callers.
os.environ.setdefault("LANCE_LOG", "error")
