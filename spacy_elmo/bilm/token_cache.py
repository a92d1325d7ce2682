"""Token vectors of a fixed vocabulary: words that the char CNN need not read again."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .errors import BiLMError
from .model import BiLM

# Words that are computed to see whether a cache is of a biLM, and by how much they may differ, relative
# to the largest number: weights may have been rounded to half precision since.
TRIED, TOLERANCE = 3, 0.02


class TokenCache:
    """The layer 0 of words, as one biLM's present weights give it.

    words (Sequence[str]): Of each row; of a word that stands twice the last row counts.
    vectors (Tensor): *Shape:* (words, projection_dim).
    """

    def __init__(self, words: Sequence[str], vectors: Tensor) -> None:
        if len(words) != len(vectors):
            raise ValueError(f"{len(words)} words have {len(vectors)} vectors, expected one each.")
        self.vectors = vectors
        self._rows = {word: row for row, word in enumerate(words)}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def words(self) -> list[str]:
        """Each once."""
        return list(self._rows)

    def __contains__(self, word: str) -> bool:
        return word in self._rows

    def lookup(self, words: Sequence[str], device: torch.device) -> Tensor:
        """Vectors of words that are all in the cache. *Shape:* (words, projection_dim)."""
        rows = torch.tensor([self._rows[word] for word in words], dtype=torch.int64)
        return self.vectors[rows.to(self.vectors.device)].to(device)


@torch.no_grad()
def compute_token_cache(bilm: BiLM, words: Sequence[str], *, block: int = 512) -> TokenCache:
    """Read a vocabulary once (AllenNLP's `vocab_to_cache`, bilm-tf's `dump_token_embeddings`)."""
    vectors = [
        bilm.encode_words(
            torch.from_numpy(bilm.spelling.words(words[i : i + block])).to(bilm.device)
        )
        for i in range(0, len(words), block)
    ]
    empty = torch.zeros(0, bilm.config.projection_dim)
    return TokenCache(words, torch.cat(vectors) if vectors else empty)


@torch.no_grad()
def check_token_cache(cache: TokenCache, bilm: BiLM, source: str) -> None:
    """Raises BiLMError unless the vectors of some words are those that the biLM computes.

    source: Where both come from.
    """
    words = cache.words[:: max(1, len(cache) // TRIED)][:TRIED]
    if not words:
        return
    computed = compute_token_cache(bilm, words).vectors
    off = (cache.lookup(words, computed.device) - computed).abs().amax(1)
    if off.max() > TOLERANCE * computed.abs().max():
        raise BiLMError(
            f"{source}: the token vector of {words[int(off.argmax())]!r} differs by {off.max():.2g} from "
            "the one that the biLM computes, expected the same: it was computed with other weights, "
            "compute the vectors anew or take them out."
        )
