"""Texts -> vectors by a small model in this process: the mean of the vectors of a text's tokens.

Weights and tokenizer are files of the package `wordllama` (extra `local`). Only its files are used: importing it would bring an HTTP client
that looks for the tokenizer on the network, though it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from omnigraph.embed.vectors import Purpose, Vectors
from omnigraph.errors import EmbeddingError, InvalidInput, Kind

MODEL: Final = "wordllama-l2-supercat-256"
DIMENSION: Final = 256
"""The first numbers of a vector are a smaller vector: the model was trained for that."""
_TENSOR: Final = "embedding.weight"
_BATCH_TEXTS: Final = 1024


class _Model(NamedTuple):
    tokenizer: Any
    weights: Vectors


class LocalEmbedder:
    """The model of this process. It is read on first use, which takes a quarter of a second."""

    model: Final = MODEL

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> Vectors:
        if dimension > DIMENSION:
            message = f"the embedding provider 'local' has vectors of at most {DIMENSION} numbers, not of {dimension}"
            raise EmbeddingError(Kind.EMBEDDING_INVALID, message, model=MODEL, dimension=dimension)
        tokenizer, weights = self._model
        vectors = np.zeros((len(texts), dimension), np.float32)
        for start in range(0, len(texts), _BATCH_TEXTS):
            encoded = tokenizer.encode_batch(list(texts[start : start + _BATCH_TEXTS]), add_special_tokens=False)
            for place, tokens in enumerate(encoded, start):
                if tokens.ids:
                    vectors[place] = weights[tokens.ids, :dimension].mean(axis=0)
        return vectors

    @cached_property
    def _model(self) -> _Model:
        package = find_spec("wordllama")
        if package is None or not package.submodule_search_locations or find_spec("tokenizers") is None:
            message = "the embedding provider 'local' needs its model: pip install 'omnigraph[local]'"
            raise InvalidInput(Kind.EMBEDDING_CONFIGURATION, message, provider="local")
        from tokenizers import Tokenizer

        directory = Path(package.submodule_search_locations[0])
        tokenizer = Tokenizer.from_file(str(directory / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return _Model(tokenizer, _weights((directory / "weights" / "l2_supercat_256.safetensors").read_bytes()))


def _weights(file: bytes) -> Vectors:
    """The one tensor of a file of safetensors: the length of a JSON header, the header, the numbers."""
    begin = 8 + int.from_bytes(file[:8], "little")
    tensor = msgspec.json.decode(file[8:begin])[_TENSOR]
    first, last = tensor["data_offsets"]
    weights: Vectors = np.frombuffer(file[begin + first : begin + last], np.float16).reshape(tensor["shape"]).astype(np.float32)
    return weights
