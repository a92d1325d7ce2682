"""A resolved config -> a trainer that stands at its first step, or where its run stopped."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..bilm.formats.files import write_atomically
from ..bilm.model import BiLM
from .config import PRECISIONS, Run
from .objective import LanguageModel
from .softmax import OutputLayer
from .trainer import Trainer
from .vocabulary import FILE, TextCounts, Vocabulary, count

COUNTS = "counts.json"


def make_trainer(run: Run, output: Path) -> Trainer:
    """Count the text, unless output holds its counts, and build the model."""
    if run.system.threads > 0:
        torch.set_num_threads(run.system.threads)
    vocabulary, counts = _count(run, output)
    torch.manual_seed(run.system.seed)
    bilm = BiLM(run.bilm)
    layer = OutputLayer(len(vocabulary), run.bilm.projection_dim)
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
    )


def _count(run: Run, output: Path) -> tuple[Vocabulary, TextCounts]:
    """Count the training text in one pass; the result is kept, as counting again changes nothing."""
    path = output / COUNTS
    asked: dict[str, Any] = {
        "files": [[file.name, file.stat().st_size] for file in run.train.files],
        **asdict(run.vocabulary),
    }
    if path.is_file() and (output / FILE).is_file():
        kept = json.loads(path.read_text(encoding="utf8"))
        if kept["asked"] == asked:
            return Vocabulary.read(output), TextCounts(**kept["found"])
    vocabulary, counts = count(run.train, **asdict(run.vocabulary))
    vocabulary.write(output)
    text = json.dumps({"asked": asked, "found": asdict(counts)}, indent=2) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf8"))
    return vocabulary, counts
