"""NAME.hdf5 + vocab.txt: token vectors of a vocabulary (bilm-tf, `dump_token_embeddings`)."""

from pathlib import Path

import h5py
import numpy as np
import torch

from ..config import BiLMConfig
from ..errors import BiLMError
from ..token_cache import TokenCache
from .files import read_text
from .hdf5 import open_hdf5
from .mapping import check_finite

MARK = "embedding"
# Not words: the cache keeps no rows for them, the biLM spells them itself.
BOUNDARIES = ("<S>", "</S>")


def read_token_cache(vectors: str | Path, vocabulary: str | Path, config: BiLMConfig) -> TokenCache:
    """Read token vectors that were computed with a biLM of this config.

    vocabulary: The words of the rows, one a line. Raises BiLMError where the files do not fit.
    """
    vectors, vocabulary = Path(vectors), Path(vocabulary)
    words = [line.strip() for line in read_text(vocabulary).removesuffix("\n").split("\n")]
    with open_hdf5(vectors) as file:
        stored = file.get(MARK)
        if not isinstance(stored, h5py.Dataset):
            raise BiLMError(
                f"{vectors} lacks the dataset '{MARK}': expected token vectors that bilm-tf's "
                "dump_token_embeddings wrote."
            )
        if stored.shape != (len(words), config.projection_dim) or stored.dtype != np.float32:
            raise BiLMError(
                f"{vectors}: '{MARK}' is {stored.shape} of {stored.dtype}, expected "
                f"{(len(words), config.projection_dim)} of float32, a row for each of the words of "
                f"{vocabulary}: they belong to different vocabularies or biLMs."
            )
        values = torch.from_numpy(stored[()])
    check_finite(values, MARK, str(vectors))
    kept = [row for row, word in enumerate(words) if word not in BOUNDARIES]
    return TokenCache([words[row] for row in kept], values[kept])
