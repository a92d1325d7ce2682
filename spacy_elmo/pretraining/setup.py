"""A resolved config -> a trainer that stands at its first step, or where its run stopped."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..bilm.formats.files import write_atomically
from ..bilm.formats.native import VOCABULARY
from ..bilm.model import BiLM
from .adaptation import extend, read_start
from .checkpoint import CHECKPOINT
from .config import PRECISIONS, Run
from .errors import PretrainingError
from .objective import LanguageModel
from .ranks import Ranks
from .softmax import OutputLayer
from .trainer import Trainer
from .vocabulary import SPECIAL, TextCounts, Vocabulary, count

COUNTS = "counts.json"


def make_trainer(run: Run, output: Path, ranks: Ranks | None = None) -> Trainer:
    """Count the text, unless output holds its counts, and build the model."""
    ranks = ranks or Ranks()
    if run.system.threads > 0:
        torch.set_num_threads(run.system.threads)
    bilm, layer, known = None, None, None
    if run.settings.init_from is not None:
        bilm, layer, known = read_start(run.settings.init_from, run.bilm)
    # The first process counts, the others read what it found.
    if not ranks.is_first:
        ranks.wait()
    vocabulary, counts = _count(run, output, known.words[len(SPECIAL) :] if known else ())
    if ranks.is_first:
        ranks.wait()
    torch.manual_seed(run.system.seed)
    if bilm is None:
        if run.bilm is None:
            raise PretrainingError(
                "The section [bilm] is empty: give the sizes of the biLM there, or a biLM to start "
                "from as pretraining.init_from."
            )
        bilm = BiLM(run.bilm)
    if layer is None or known is None:
        layer = OutputLayer(len(vocabulary), bilm.config.projection_dim)
    else:
        layer = extend(layer, known, vocabulary)
    model = LanguageModel(bilm, layer, dropout=run.settings.dropout)
    return Trainer(
        model.to(run.system.torch_device()),
        vocabulary,
        counts,
        run.train,
        run.dev,
        run.settings,
        run.optimization,
        output,
        seed=run.system.seed,
        precision=PRECISIONS[run.system.precision],
        ranks=ranks,
    )


def _count(run: Run, output: Path, known: Sequence[str]) -> tuple[Vocabulary, TextCounts]:
    """Count the training text in one pass; what was found is kept, as it would be found again.

    known: Words of the output layer that the run starts from.
    """
    path, words = output / COUNTS, output / VOCABULARY
    asked: dict[str, Any] = {
        "files": [[file.name, file.stat().st_size] for file in run.train.files],
        "init_from": run.settings.init_from,
        **asdict(run.vocabulary),
    }
    if path.is_file() and words.is_file():
        kept = json.loads(path.read_text(encoding="utf8"))
        if kept["asked"] == asked:
            return Vocabulary.read(words), TextCounts(**kept["found"])
        if (output / CHECKPOINT).is_file():
            raise PretrainingError(
                f"{path} says that the run in {output} began on other text, words or weights: go on "
                "with the same ones, or give another --output."
            )
    vocabulary, counts = count(run.train, known=known, **asdict(run.vocabulary))
    vocabulary.write(words)
    text = json.dumps({"asked": asked, "found": asdict(counts)}, indent=2) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf8"))
    return vocabulary, counts
