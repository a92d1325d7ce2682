"""The token encoder for reading alone: packed weights, and words read lately kept."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .char_cnn import Highway
from .model import BiLM
from .precision import Precision
from .products import Product, pack
from .token_cache import TokenCache

# Words that the char CNN reads at once: bounds its memory, (words, positions, filters).
CHAR_CNN_WORDS = 512


class PackedTokenEncoder:
    """What BiLM.encode_words computes. Convolutions keep full precision."""

    def __init__(self, bilm: BiLM, precision: Precision) -> None:
        self._encoder = bilm.token_encoder
        self._highways = [_PackedHighway(layer, precision) for layer in self._encoder.highways]  # type: ignore[arg-type]
        projection = self._encoder.projection
        self._project: Product | None = None
        if isinstance(projection, torch.nn.Linear):
            self._project = pack(projection.weight, projection.bias, precision)

    def __call__(self, ids: Tensor) -> Tensor:
        """*Shape:* (words, columns) -> (words, projection_dim)."""
        features = self._encoder.pool(ids)
        for highway in self._highways:
            features = highway(features)
        features = self._encoder.add_words(ids, features)
        return features if self._project is None else self._project(features)


class _PackedHighway:
    def __init__(self, highway: Highway, precision: Precision) -> None:
        self._transform, self._carry = (
            pack(linear.weight, linear.bias, precision)
            for linear in (highway.transform, highway.carry)
        )

    def __call__(self, inputs: Tensor) -> Tensor:
        gate = self._carry(inputs).sigmoid_()
        return torch.lerp(inputs, self._transform(inputs).relu_(), gate)


class TokenTable:
    """Token vectors of sentence boundaries and words. While a word is kept it is not read again.

    most_words (int): Kept at the most; when they are more, it starts anew.
    token_cache (TokenCache | None): Words that the char CNN need not read.
    """

    def __init__(
        self, bilm: BiLM, precision: Precision, most_words: int, token_cache: TokenCache | None
    ) -> None:
        self._encode = PackedTokenEncoder(bilm, precision)
        self._spelling = bilm.spelling
        self._device = bilm.device
        self._most_words = most_words
        self._token_cache = token_cache
        self.boundaries = self._encode(self._ids(self._spelling.boundaries()))
        self._clear()

    def __len__(self) -> int:
        return len(self._rows)

    def __call__(self, words: Sequence[str]) -> Tensor:
        """Vectors of distinct words. *Shape:* (words, projection_dim)."""
        new = [word for word in words if word not in self._rows]
        if len(self._rows) + len(new) > self._most_words:
            self._clear()
            new = list(words)
        kept, read = len(self._rows), self._read(new)
        self._rows.update(zip(new, range(kept, kept + len(new)), strict=True))
        self._reserve(len(self._rows))
        self._vectors[kept : len(self._rows)] = read
        vectors = self._vectors[[self._rows[word] for word in words]]
        if len(self._rows) > self._most_words:
            self._clear()
        return vectors

    def _clear(self) -> None:
        self._rows: dict[str, int] = {}
        self._vectors = self.boundaries.new_empty(0, self.boundaries.shape[1])

    def _reserve(self, rows: int) -> None:
        if rows > len(self._vectors):
            larger = self._vectors.new_empty(2 * rows, self._vectors.shape[1])
            larger[: len(self._vectors)] = self._vectors
            self._vectors = larger

    def _read(self, words: list[str]) -> Tensor:
        vectors = self._vectors.new_empty(len(words), self._vectors.shape[1])
        cache = self._token_cache
        known = [i for i, word in enumerate(words) if cache is not None and word in cache]
        if cache is not None and known:
            vectors[known] = cache.lookup([words[i] for i in known], vectors.device).to(vectors)
        # Words of about one length together: the char CNN reads as many columns as the longest has.
        spelled = sorted(set(range(len(words))) - set(known), key=lambda i: len(words[i]))
        for start in range(0, len(spelled), CHAR_CNN_WORDS):
            block = spelled[start : start + CHAR_CNN_WORDS]
            vectors[block] = self._encode(
                self._ids(self._spelling.words([words[i] for i in block]))
            )
        return vectors

    def _ids(self, ids: np.ndarray) -> Tensor:
        return torch.from_numpy(ids).to(self._device)
