"""Seconds that an epoch of training an NER pipeline takes, on a frozen biLM and without.

    python benchmarks/train_epoch.py run --size small    # en_elmo_sm
    python benchmarks/train_epoch.py run --size full     # the original's size, random weights
    python benchmarks/train_epoch.py table

The pipeline is that of `spacy elmo init-config`, with its caches of layers, beside the same pipeline
that reads a fixed table of vectors as wide as ELMo's, one row a word, in ELMo's place, and (small) beside
spaCy's own. All are in one process and take turns, an epoch each. An epoch has the same sentences in
another order, in batches of 1,000 words. Later: the median of all epochs but the first.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import spacy
import torch
import typer
from common import (
    DATA,
    ORIGINAL,
    RESULTS,
    TINY,
    Reading,
    Section,
    bilm_of_trained_scale,
    describe_text,
    print_section,
    print_table,
    read_results,
)
from spacy.cli.init_config import init_config
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, minibatch_by_words
from spacy.training.converters import conll_ner_to_docs
from spacy.util import fix_random_seed, load_model_from_config
from thinc.api import Config, Model, Optimizer, chain
from thinc.types import Floats2d

from spacy_elmo import load_bilm
from spacy_elmo.bilm.formats import native
from spacy_elmo.layers.configured_dropout import configured_dropout
from spacy_elmo.training_config import LISTENER, elmo_config

OUTPUT = RESULTS / "train_epoch.json"
TRAIN = DATA / "wnut17" / "wnut17train.conll"
TABLE = "spacy-elmo.benchmarks.StaticTable.v1"
SPACY, STATIC = "spaCy's tok2vec", "static table"
ROWS = 20_000
BATCH_WORDS = 1000
app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)


@spacy.registry.architectures(TABLE)
def static_table(width: int, dropout: float) -> Model[list[Doc], list[Floats2d]]:
    """Fixed random vectors in place of an ElmoListener."""
    table = np.random.default_rng(0).standard_normal((ROWS, width), dtype=np.float32)

    def forward(
        model: Model, docs: list[Doc], is_train: bool
    ) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
        vectors = [model.ops.asarray2f(table[doc.to_array("ORTH") % ROWS]) for doc in docs]
        return vectors, lambda d_vectors: []

    return chain(Model("static_table", forward, dims={"nO": width}), configured_dropout(dropout))


@dataclass
class Training:
    """A pipeline in training; each call is an epoch."""

    config: Config
    gold: Sequence[Doc]
    nlp: Language = field(init=False)
    optimizer: Optimizer = field(init=False)

    def __post_init__(self) -> None:
        fix_random_seed(0)
        self.nlp = load_model_from_config(self.config, auto_fill=True)
        self.optimizer = self.nlp.initialize(self._examples)
        self._random = random.Random(0)

    def __call__(self) -> Reading:
        examples = self._examples()
        self._random.shuffle(examples)
        losses: dict[str, float] = {}
        start = time.perf_counter()
        for batch in minibatch_by_words(examples, BATCH_WORDS):
            self.nlp.update(batch, sgd=self.optimizer, losses=losses, drop=0.1)
        return {"seconds": time.perf_counter() - start, "loss": float(losses["ner"])}

    def _examples(self) -> list[Example]:
        vocab = self.nlp.vocab
        return [Example(Doc(vocab, words=[t.text for t in doc]), doc) for doc in self.gold]


@app.command()
def run(
    size: Literal["small", "full"] = typer.Option("small", help="Of the biLM"),
    train: Path = typer.Option(TRAIN, help="A token and its IOB tag a line"),
    share: float = typer.Option(1.0, help="Of the sentences, from the beginning"),
    epochs: int = typer.Option(
        4, help="Of each pipeline; those without a cache have two at full size"
    ),
    threads: int = typer.Option(2, help="PyTorch's; spaCy's own layers use one"),
    output: Path = typer.Option(OUTPUT, help="Where readings are, and are added"),
    quick: bool = typer.Option(False, help="A tiny biLM for the full-size one"),
) -> None:
    """Train each pipeline."""
    torch.set_num_threads(threads)
    text = train.read_text(encoding="utf8")
    gold = list(conll_ner_to_docs(text, n_sents=1, no_print=True))
    gold = gold[: max(1, round(len(gold) * share))]
    described = describe_text([[token.text for token in doc] for doc in gold])
    settings = {"text": described, "share": share, "threads": threads}
    section = Section(output, size, settings)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        bilm = "en_elmo_sm"
        if size == "full":
            model = bilm_of_trained_scale(TINY if quick else ORIGINAL)
            native.write(model.config, model.state_dict(), place / "bilm")
            bilm = str(place / "bilm")
        configs = _configs(bilm, place / "cache")
        if size == "full":
            del configs[SPACY]
        repeats = dict.fromkeys(configs, epochs)
        if size == "full":
            repeats["no cache"] = min(2, epochs)
        if any(len(section.readings.get(way, [])) < repeats[way] for way in configs):
            # What an epoch costs depends on those before it.
            section.values["readings"] = {}
            trainings = {way: Training(config, gold) for way, config in configs.items()}
            section.take_turns({way: partial(each) for way, each in trainings.items()}, repeats)
    print_table(*_rows(section.values))


@app.command()
def table(output: Path = typer.Option(OUTPUT, help="Where readings are")) -> None:
    """Print the readings in Markdown."""
    for name, section in read_results(output).items():
        print_section(name, section)
        print_table(*_rows(section))


def _configs(bilm: str, cache: Path) -> dict[str, Config]:
    plain = elmo_config("en", ("ner",), bilm, "input", "efficiency")[0]
    disk = {"@misc": "spacy-elmo.disk_cache.v1", "path": str(cache)}
    caches: dict[str, Any] = {
        "no cache": None,
        "memory cache": {"@misc": "spacy-elmo.memory_cache.v1", "max_mb": 4000},
        "disk cache": disk,
        "disk cache that an earlier run filled": disk,
    }
    configs = {SPACY: init_config(lang="en", pipeline=["ner"], optimize="efficiency")}
    static = plain.copy()
    del static["components"]["elmo"]
    static["nlp"]["pipeline"] = ["ner"]
    static["components"]["ner"]["model"]["tok2vec"]["input"] = {
        "@architectures": TABLE,
        "width": load_bilm(bilm).config.width,
        "dropout": LISTENER["dropout"],
    }
    configs[STATIC] = static
    for way, each in caches.items():
        configs[way] = plain.copy()
        configs[way]["components"]["elmo"]["cache"] = each
    return configs


def _rows(section: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    found = {way: [each["seconds"] for each in taken] for way, taken in section["readings"].items()}
    later = {way: statistics.median(seconds[1:]) for way, seconds in found.items() if seconds[1:]}
    rows = []
    for way, seconds in found.items():
        first, most = f"{seconds[0]:.2f}", ", ".join(f"{each:.2f}" for each in seconds[1:])
        ratio = f"{later[way] / later[STATIC]:.2f}" if {way, STATIC} <= set(later) else ""
        rows.append([way, first, most, ratio])
    return ["", "first epoch, s", "later epochs, s", "later / static table"], rows


if __name__ == "__main__":
    app()
