"""What names mean: a schema's trees -> a `Catalog` of types, with identities, keys and evolution. Pure: no files, no Lance."""
