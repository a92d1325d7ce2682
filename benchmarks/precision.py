"""What a lower precision of the biLM does to the scores of a pipeline trained in float32.

    python benchmarks/precision.py run
    python benchmarks/precision.py table

NER on Wikigold with en_elmo_sm: trained once, the best on dev, and scored on test in each precision, as
`[components.elmo.model] precision` sets it.
"""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import spacy
import torch
import typer
from common import DATA, RESULTS, Reading, Section, print_section, print_table, read_results
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.training.converters import conll_ner_to_docs

from spacy_elmo.bilm.precision import PRECISIONS
from spacy_elmo.training_config import elmo_config

OUTPUT = RESULTS / "precision.json"
WIKIGOLD = DATA / "wikigold"
SCORES = {"F1": "ents_f", "precision": "ents_p", "recall": "ents_r"}
app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)


@app.command()
def run(
    training: Path = typer.Option(
        WIKIGOLD / "wikigold-train.conll", "--train", help="A token and its tag a line"
    ),
    dev: Path = typer.Option(WIKIGOLD / "wikigold-dev.conll", help="Likewise"),
    test: Path = typer.Option(WIKIGOLD / "wikigold-test.conll", help="Likewise"),
    max_steps: int = typer.Option(1000, help="Of the training"),
    seeds: int = typer.Option(1, help="Trainings"),
    threads: int = typer.Option(2, help="PyTorch's"),
    output: Path = typer.Option(OUTPUT, help="Where scores are, and are added"),
    quick: bool = typer.Option(False, help="Two steps: only to see that it runs"),
) -> None:
    """Train and score."""
    torch.set_num_threads(threads)
    max_steps = 2 if quick else max_steps
    settings = {"data": training.stem, "max_steps": max_steps}
    for seed in range(seeds):
        section = Section(output, f"seed {seed}", settings)
        if all(section.readings.get(precision) for precision in PRECISIONS):
            continue
        with tempfile.TemporaryDirectory() as name:
            best = _train([training, dev], Path(name), max_steps, seed)
            gold = _read_docs(test)
            ways = {precision: partial(_score, best, gold, precision) for precision in PRECISIONS}
            section.take_turns(ways, dict.fromkeys(ways, 1))
    table(output)


@app.command()
def table(output: Path = typer.Option(OUTPUT, help="Where scores are")) -> None:
    """Print the scores in Markdown."""
    for name, section in read_results(output).items():
        print_section(name, section)
        print_table(*_rows(section))


def _train(files: list[Path], place: Path, max_steps: int, seed: int) -> Path:
    """The directory of the best pipeline on dev."""
    overrides: dict[str, object] = {"training.max_steps": max_steps, "system.seed": seed}
    for split, file in zip(("train", "dev"), files, strict=True):
        overrides[f"paths.{split}"] = str(place / f"{split}.spacy")
        DocBin(docs=_read_docs(file)).to_disk(place / f"{split}.spacy")
    elmo_config("en", ("ner",), "en_elmo_sm", "input", "efficiency")[0].to_disk(
        place / "config.cfg"
    )
    train(place / "config.cfg", place / "out", overrides=overrides)
    return place / "out" / "model-best"


def _read_docs(path: Path) -> list[Doc]:
    """One Doc a sentence."""
    lines = path.read_text(encoding="utf8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("-DOCSTART-"))
    return list(conll_ner_to_docs(text, n_sents=1, no_print=True))


def _score(pipeline: Path, gold: list[Doc], precision: str) -> Reading:
    nlp = spacy.load(pipeline, config={"components.elmo.model.precision": precision})
    assert nlp.get_pipe("elmo").model.attrs["reading"].precision == precision  # type: ignore[attr-defined]
    examples = [Example(Doc(nlp.vocab, words=[t.text for t in doc]), doc) for doc in gold]
    scores = nlp.evaluate(examples)
    entities = sum(len(example.predicted.ents) for example in examples)
    return {**{name: 100 * scores[key] for name, key in SCORES.items()}, "entities": entities}


def _rows(section: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [way, *(f"{reading[name]:.2f}" for name in SCORES), str(reading["entities"])]
        for way, (reading,) in section["readings"].items()
    ]
    return ["", *SCORES, "entities found"], rows


if __name__ == "__main__":
    app()
