"""Words a second of spaCy pipelines with ELMo and without.

    python benchmarks/pipelines.py run
    python benchmarks/pipelines.py run --transformers scratch/bin/python
    python benchmarks/pipelines.py table

All weights but en_elmo_sm's are random: what a pipeline costs, not what it is worth. Docs hold ten
sentences each, their tokens are given; Docs are made anew for each reading, not counted. Ways take turns.
The environment with spacy-transformers: see pipelines_with_transformer.py.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import spacy
import torch
import typer
from common import (
    ORIGINAL,
    RESULTS,
    TEXT,
    TINY,
    Reading,
    Section,
    Worker,
    bilm_of_trained_scale,
    describe_text,
    documents,
    print_section,
    print_table,
    read_results,
    sentences,
    spread,
)
from spacy.cli.init_config import init_config
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_model_from_config

from spacy_elmo.bilm.precision import PRECISIONS
from spacy_elmo.layers.bilm_model import get_shim
from spacy_elmo.training_config import Placement, elmo_config

OUTPUT = RESULTS / "pipelines.json"
TASKS = ("tagger", "parser", "ner")
TOK2VEC = "tok2vec, width 96"
WITHOUT, WITH = "tagger, parser, ner", "tagger, parser, ner, en_elmo_sm"
SHARED = "tagger, parser, ner, en_elmo_sm in their tok2vec"
# As with ELMo, where each component has embed and encode of its own.
OWN = "tagger, parser, ner, a tok2vec each"
TRANSFORMER = "transformer of BERT base's size"
DOC_SENTENCES = 10
app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)


@app.command()
def run(
    number: int = typer.Option(2000, "--sentences", help="Sentences from the text's beginning"),
    full_number: int = typer.Option(200, "--full-sentences", help="Of full-size models"),
    text: Path = typer.Option(TEXT, help="CoNLL-U, or a tokenized sentence a line"),
    threads: int = typer.Option(2, help="PyTorch's; spaCy's own layers use one"),
    repeats: int = typer.Option(5, help="Readings of each pipeline"),
    transformers: Path | None = typer.Option(
        None, help="The Python of an environment with spacy-transformers"
    ),
    output: Path = typer.Option(OUTPUT, help="Where readings are, and are added"),
    quick: bool = typer.Option(False, help="A tiny biLM for the full-size one"),
) -> None:
    """Measure each pipeline on the same text, full-size models on its beginning."""
    lines = sentences(text, number)
    torch.set_num_threads(threads)
    settings = {"text": describe_text(lines), "full size": full_number, "threads": threads}
    section = Section(output, "pipelines", settings)
    small: dict[str, Language] = {
        TOK2VEC: _one("tok2vec", _tok2vec()),
        **{
            f"en_elmo_sm, {precision}": _one("elmo", {"model": {"precision": precision}})
            for precision in PRECISIONS
        },
        WITHOUT: _initialized(init_config(lang="en", pipeline=list(TASKS), optimize="efficiency")),
        OWN: _initialized(_own_tok2vecs()),
        WITH: _with_elmo("input"),
        SHARED: _with_elmo("shared"),
    }
    few = lines[:full_number]
    ways: dict[str, Callable[[], Reading]] = {
        name: partial(_measure, nlp, lines) for name, nlp in small.items()
    }
    ways["ELMo of the original's size"] = partial(_measure, _full_size(quick), few)
    worker = _transformer(transformers, lines, threads, quick) if transformers else None
    if worker:
        ways[TRANSFORMER] = partial(worker.ask, docs=_words(few))
    section.take_turns(ways, dict.fromkeys(ways, repeats))
    if worker:
        worker.close()
    print_table(*_rows(section.values))


@app.command()
def table(output: Path = typer.Option(OUTPUT, help="Where readings are")) -> None:
    """Print the readings in Markdown."""
    for name, section in read_results(output).items():
        print_section(name, section)
        print_table(*_rows(section))


def _one(name: str, config: dict[str, Any]) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe(name, config=config)
    if name == "tok2vec":
        nlp.initialize()
    return nlp


def _tok2vec() -> dict[str, Any]:
    """spaCy's default."""
    architecture = {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "pretrained_vectors": None,
        "width": 96,
        "depth": 4,
        "embed_size": 2000,
        "window_size": 1,
        "maxout_pieces": 3,
        "subword_features": True,
    }
    return {"model": architecture}


def _with_elmo(placement: Placement) -> Language:
    return _initialized(elmo_config("en", TASKS, "en_elmo_sm", placement, "efficiency")[0])


def _own_tok2vecs() -> dict[str, Any]:
    config = elmo_config("en", TASKS, "en_elmo_sm", "input", "efficiency")[0]
    del config["components"]["elmo"]
    config["nlp"]["pipeline"] = list(TASKS)
    for name in TASKS:
        tok2vec = config["components"][name]["model"]["tok2vec"]
        del tok2vec["input"], tok2vec["output"]
        tok2vec["@architectures"] = "spacy.Tok2Vec.v2"
    return config


def _initialized(config: dict[str, Any]) -> Language:
    """With as many labels as English treebanks and OntoNotes have."""
    nlp = load_model_from_config(config, auto_fill=True)
    words = [f"w{i}" for i in range(50)]
    doc = Doc(
        nlp.vocab,
        words=words,
        tags=[f"T{i}" for i in range(50)],
        heads=[0] * 50,
        deps=["ROOT", *(f"d{1 + i % 45}" for i in range(49))],
        ents=[f"B-E{i % 18}" for i in range(50)],
    )
    nlp.initialize(lambda: [Example(Doc(nlp.vocab, words=words), doc)])
    return nlp


def _full_size(quick: bool) -> Language:
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    bilm = bilm_of_trained_scale(TINY if quick else ORIGINAL)
    get_shim(elmo.model).set_weights(bilm.config, bilm.state_dict())  # type: ignore[attr-defined]
    return nlp


def _transformer(python: Path, lines: list[list[str]], threads: int, quick: bool) -> Worker:
    """It has read a Doc."""
    script = Path(__file__).with_name("pipelines_with_transformer.py")
    size = "tiny" if quick else "base"
    worker = Worker(python, script, threads, size, first={"docs": _words(lines)})
    worker.ask(docs=[["#"]])
    return worker


def _words(lines: list[list[str]]) -> list[list[str]]:
    return [[token.text for token in doc] for doc in documents(lines, DOC_SENTENCES)]


def _measure(nlp: Language, lines: list[list[str]]) -> Reading:
    docs = documents(lines, DOC_SENTENCES, nlp.vocab)
    _forget_words(nlp)
    start = time.perf_counter()
    words = sum(len(doc) for doc in nlp.pipe(docs))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "words": words, "words/s": words / seconds}


def _forget_words(nlp: Language) -> None:
    """Have the biLM's weights packed anew, and no word kept from an earlier reading."""
    if nlp.has_pipe("elmo"):
        shim = get_shim(nlp.get_pipe("elmo").model)  # type: ignore[attr-defined]
        shim.set_weights(shim.bilm.config, shim.bilm.state_dict())
    nlp(Doc(nlp.vocab, words=["#"]))


def _rows(section: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    readings = section["readings"]
    speeds = {way: [each["words/s"] for each in taken] for way, taken in readings.items()}
    rows = []
    for way, values in speeds.items():
        beside = WITHOUT if way in (OWN, WITH, SHARED) else TOK2VEC
        ratio = statistics.median(values) / statistics.median(speeds[beside])
        rows.append([way, spread(values), f"{ratio:.2f} of {beside}"])
    return ["", "words/s", "ratio"], rows


if __name__ == "__main__":
    app()
