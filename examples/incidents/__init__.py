"""An incident knowledge graph: agents fill it on branches, a person reviews and merges."""
