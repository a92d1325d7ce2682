"""NAME.hdf5 + vocab.txt: token vectors of a vocabulary (bilm-tf, `dump_token_embeddings`)."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import torch

from ..config import BiLMConfig
from ..errors import BiLMError
from ..token_cache import TokenCache
from .files import read_text
from .hdf5 import DAMAGE, open_hdf5
from .mapping import check_finite

MARK = "embedding"
# Not words: the cache keeps no rows for them, the biLM spells them itself.
BOUNDARIES = ("<S>", "</S>")


def find(directory: Path) -> Callable[[BiLMConfig], TokenCache] | None:
    """How to read the token vectors that stand in a biLM's directory; None where there are none.

    Their vocabulary is the text file beside them that has a line for each.
    Raises BiLMError where it is not clear which vectors or which vocabulary.
    """
    found = [path for path in sorted(directory.iterdir()) if path.is_file() and is_vectors(path)]
    if not found:
        return None
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise BiLMError(
            f"{directory} holds token vectors of several vocabularies ({names}), expected those of one: "
            "take the others out."
        )
    vectors, vocabulary = found[0], find_vocabulary(found[0])
    return lambda config: read_token_cache(vectors, vocabulary, config)


def is_vectors(path: Path) -> bool:
    """Whether a file is HDF5 and holds token vectors and nothing else."""
    if not h5py.is_hdf5(path):
        return False
    try:
        with h5py.File(path, "r") as file:
            return list(file) == [MARK]
    except DAMAGE:
        return False


def find_vocabulary(vectors: Path) -> Path:
    """The text beside token vectors with as many lines. Raises BiLMError where it is not one."""
    with open_hdf5(vectors) as file:
        rows = len(file[MARK])
    texts = sorted(vectors.parent.glob("*.txt"))
    fitting = [text for text in texts if len(_lines(text)) == rows]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(text.name for text in fitting or texts) or "none"
    raise BiLMError(
        f"{vectors} holds the token vectors of {rows} words, expected one .txt beside it with a line for "
        f"each, found {names}: put their vocabulary there, and it alone, or take the vectors out."
    )


def _lines(text: Path) -> list[str]:
    return read_text(text).removesuffix("\n").split("\n")


def read_token_cache(vectors: str | Path, vocabulary: str | Path, config: BiLMConfig) -> TokenCache:
    """Read token vectors that were computed with a biLM of this config.

    vocabulary: The words of the rows, one a line. Raises BiLMError where the files do not fit.
    """
    vectors, vocabulary = Path(vectors), Path(vocabulary)
    words = [line.strip() for line in _lines(vocabulary)]
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
