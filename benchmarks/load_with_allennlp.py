"""AllenNLP's reading of options.json + weights.hdf5, for load.py: prints seconds and megabytes as JSON.

    python -m venv scratch
    scratch/bin/pip install torch==2.13.0 h5py && scratch/bin/pip install --no-deps allennlp==2.10.1
    scratch/bin/python benchmarks/load_with_allennlp.py DIRECTORY SENTENCE...

Only the modules of its ELMo are used, as they are; what they import for data and configs is left out,
for it wants Python 3.10 or older.
"""

import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import h5py  # noqa: F401
import numpy as np
import torch

PACKAGE = Path(importlib.util.find_spec("allennlp").submodule_search_locations[0])  # type: ignore[union-attr,index]
# Packages whose own __init__ would import all of AllenNLP.
BARE = ("allennlp", "allennlp.modules", "allennlp.nn")


def stand_in() -> None:
    for name in BARE:
        module = ModuleType(name)
        module.__path__ = [str(PACKAGE.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module
    common = ModuleType("allennlp.common")
    common.FromParams = common.Registrable = type("FromParams", (), {})  # type: ignore[attr-defined]
    sys.modules["allennlp.common"] = common
    for name in (
        "common.checks",
        "common.file_utils",
        "common.util",
        "data.instance",
        "data.tokenizers.token_class",
        "data.vocabulary",
        "data.batch",
        "data.fields",
        "nn.initializers",
    ):
        sys.modules[f"allennlp.{name}"] = MagicMock()
    sys.modules["allennlp.common.checks"].ConfigurationError = ValueError  # type: ignore[attr-defined]
    sys.modules["allennlp.common.file_utils"].cached_path = lambda path: path  # type: ignore[attr-defined]
    sys.modules["allennlp.nn.initializers"].block_orthogonal = lambda *_: None  # type: ignore[attr-defined]
    mapper = type(
        "ELMoCharacterMapper",
        (),
        {
            "beginning_of_sentence_characters": framed([256]),
            "end_of_sentence_characters": framed([257]),
        },
    )
    indexers = MagicMock(ELMoCharacterMapper=mapper)
    sys.modules["allennlp.data.token_indexers.elmo_indexer"] = indexers


def framed(characters: list[int]) -> list[int]:
    """A word's characters between its boundaries, filled up."""
    ids = [258, *characters, 259]
    return ids + [260] * (50 - len(ids))


def megabytes(field: str) -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) / 1024


def main(directory: Path, sentence: list[str]) -> None:
    torch.set_num_threads(1)
    stand_in()
    from allennlp.modules.elmo import _ElmoBiLm

    own = megabytes("RssAnon")
    before, started = megabytes("VmRSS"), time.perf_counter()
    bilm = _ElmoBiLm(str(directory / "options.json"), str(directory / "weights.hdf5")).eval()
    loaded = time.perf_counter()
    # AllenNLP counts from 1, 0 is its mask.
    ids = torch.tensor([[framed(list(word.encode()[:48])) for word in sentence]]) + 1
    with torch.no_grad():
        layers = bilm(ids)["activations"]
    ended = time.perf_counter()
    vectors = np.stack([layer[0, 1:-1].numpy() for layer in layers])
    print(
        json.dumps(
            {
                "load": loaded - started,
                "first": ended - started,
                "peak": megabytes("VmHWM") - before,
                "own": megabytes("RssAnon") - own,
                "sum": float(np.abs(vectors).sum()),
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
