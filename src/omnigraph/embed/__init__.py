"""Texts -> unit vectors, by an embedding provider. Graphs are not known here."""

from omnigraph.embed.providers import EmbeddingProvider, embedder_of, portable_provider, provider_from_environment, resolve_embedder
from omnigraph.embed.vectors import Embedder, Purpose, Vectors, embed_texts

__all__ = [
    "Embedder",
    "EmbeddingProvider",
    "Purpose",
    "Vectors",
    "embed_texts",
    "embedder_of",
    "portable_provider",
    "provider_from_environment",
    "resolve_embedder",
]
