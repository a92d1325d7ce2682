"""Scores with few labels: spaCy's own features, after `spacy pretrain`, and with ELMo.

    python benchmarks/tasks.py run spacy elmo --data ../shared/data
    python benchmarks/tasks.py table

Every cell (task, share of the training sentences, seed) is trained for at most 3,000 steps by `spacy
train`, the best on dev, and scored on test by `spacy evaluate`. A result is a line of a file; what stands
there is not run again, so that a stopped run goes on where it was. A seed chooses both the sentences, the
same for each system, and the weights' start.
"""

import json
import lzma
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import typer
from spacy.cli.init_config import init_config
from spacy.tokens import Doc, DocBin
from spacy.training.converters import conll_ner_to_docs, conllu_to_docs
from thinc.api import Config
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.training_config import elmo_config

RESULTS = Path(__file__).parent / "results" / "tasks.jsonl"
SYSTEMS = ("spacy", "spacy-pretrain", "elmo")
app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)


@dataclass(frozen=True)
class Task:
    """files: train, dev, test. scores: Their names in a table, and in spaCy's metrics."""

    files: tuple[str, str, str]
    pipeline: tuple[str, ...]
    scores: dict[str, str]
    shares: tuple[int, ...]
    seeds: int
    lang: str = "en"


NER = {"F1": "ents_f"}
PARSING = {"tag": "tag_acc", "UAS": "dep_uas", "LAS": "dep_las"}
TASKS = {
    "wnut17": Task(
        ("wnut17/wnut17train.conll", "wnut17/emerging.dev.conll", "wnut17/emerging.test.annotated"),
        ("ner",),
        NER,
        (100, 30, 10, 3),
        3,
    ),
    "wikigold": Task(
        tuple(f"wikigold/wikigold-{split}.conll" for split in ("train", "dev", "test")),  # type: ignore[arg-type]
        ("ner",),
        NER,
        (100, 30, 10, 3),
        3,
    ),
    "gum": Task(
        tuple(f"gum/gum-open-{split}.conllu.xz" for split in ("train", "dev", "test")),  # type: ignore[arg-type]
        ("tagger", "parser"),
        PARSING,
        (100, 10),
        2,
    ),
    "craft-dep": Task(
        tuple(f"craft-dep/craft-{split}.conllu.xz" for split in ("train", "dev", "test")),  # type: ignore[arg-type]
        ("tagger", "parser"),
        PARSING,
        (10, 3),
        2,
    ),
    "cy-ud": Task(
        tuple(f"cy-ud/cy_ccg-ud-{split}.conllu.xz" for split in ("train", "dev", "test")),  # type: ignore[arg-type]
        ("tagger", "parser"),
        PARSING,
        (100,),
        3,
        "xx",
    ),
}
GENERAL = ("wnut17", "wikigold", "gum")


@dataclass(frozen=True)
class Cell:
    task: str
    share: int
    seed: int
    system: str
    model: str  # the biLM or the pretrained weights; empty for spaCy's own


@app.command()
def run(
    systems: list[str] = typer.Argument(..., help=f"Of {', '.join(SYSTEMS)}"),
    data: Path = typer.Option(..., help="The folder of the tasks' folders", exists=True),
    task: list[str] = typer.Option(list(GENERAL), help=f"Of {', '.join(TASKS)}"),
    bilm: str = typer.Option("en_elmo_sm", help="The biLM of the system elmo"),
    placement: str = typer.Option("both", help="Where the system elmo has ELMo"),
    pretrained: Path | None = typer.Option(None, help="Weights for the system spacy-pretrain"),
    max_steps: int = typer.Option(3000, help="Training steps"),
    results: Path = typer.Option(RESULTS, help="Where results are, and are added"),
) -> None:
    """Train and score what is not among the results yet."""
    if unknown := sorted(set(systems) - set(SYSTEMS)):
        msg.fail(f"No system '{unknown[0]}', expected {', '.join(SYSTEMS)}", exits=1)
    if "spacy-pretrain" in systems and pretrained is None:
        msg.fail(
            "The system spacy-pretrain needs --pretrained, weights of `spacy pretrain`", exits=1
        )
    models = {"spacy": "", "spacy-pretrain": str(pretrained), "elmo": bilm}
    done = {_cell(line) for line in _read(results)}
    todo = [
        Cell(name, share, seed, system, models[system])
        for seed in range(max(TASKS[name].seeds for name in task))
        for name in task
        for share in TASKS[name].shares
        for system in systems
        if seed < TASKS[name].seeds
    ]
    results.parent.mkdir(parents=True, exist_ok=True)
    for cell in tqdm([cell for cell in todo if cell not in done], unit="run"):
        started = time.time()
        scores = _train_and_score(cell, data, placement, max_steps)
        line = {**asdict(cell), "scores": scores, "seconds": round(time.time() - started)}
        with results.open("a", encoding="utf8") as file:
            file.write(json.dumps(line) + "\n")


@app.command()
def table(results: Path = typer.Option(RESULTS, help="Where results are")) -> None:
    """Print the results in Markdown: mean and standard deviation over the seeds."""
    found: dict[tuple[str, int, str], dict[str, list[float]]] = defaultdict(dict)
    systems = []
    for line in _read(results):
        cell = _cell(line)
        systems.append(" ".join(filter(None, (cell.system, Path(cell.model).name))))
        for score, value in line["scores"].items():
            row = found[cell.task, -cell.share, score]
            row.setdefault(systems[-1], []).append(100 * value)
    columns = list(dict.fromkeys(systems))
    print("| task | labels | score |", " | ".join(columns), "|")
    print("| --- | --- | --- |", " | ".join("---" for _ in columns), "|")
    for (name, share, score), row in sorted(found.items()):
        values = [_mean_and_spread(row.get(column, [])) for column in columns]
        print(f"| {name} | {-share}% | {score} |", " | ".join(values), "|")


def _mean_and_spread(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread} ({len(values)})"


def _train_and_score(cell: Cell, data: Path, placement: str, max_steps: int) -> dict[str, float]:
    task = TASKS[cell.task]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for split, file in zip(("train", "dev", "test"), task.files, strict=True):
            docs = list(_read_docs(data / file))
            if split == "train":
                random.Random(cell.seed).shuffle(docs)
                docs = docs[: max(1, len(docs) * cell.share // 100)]
            DocBin(docs=docs, store_user_data=True).to_disk(place / f"{split}.spacy")
        _config(cell, task, placement).to_disk(place / "config.cfg")
        overrides = {
            "paths.train": place / "train.spacy",
            "paths.dev": place / "dev.spacy",
            "training.max_steps": max_steps,
            "system.seed": cell.seed,
        }
        options = [f"--{key}={value}" for key, value in overrides.items()]
        _spacy("train", place / "config.cfg", "--output", place / "out", *options)
        metrics = place / "metrics.json"
        best = place / "out" / "model-best"
        _spacy("evaluate", best, place / "test.spacy", "--output", metrics)
        scores = json.loads(metrics.read_text(encoding="utf8"))
        return {shown: scores[key] for shown, key in task.scores.items()}


def _config(cell: Cell, task: Task, placement: str) -> Config:
    if cell.system == "elmo":
        return elmo_config(task.lang, task.pipeline, cell.model, placement, "efficiency")[0]  # type: ignore[arg-type]
    config = init_config(lang=task.lang, pipeline=list(task.pipeline), optimize="efficiency")
    if cell.system == "spacy-pretrain":
        config["paths"]["init_tok2vec"] = cell.model
    return config


def _read_docs(path: Path) -> Iterator[Doc]:
    """One Doc a sentence."""
    text = lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else path.read_text()
    if ".conllu" in path.name:
        return conllu_to_docs(text, n_sents=1, no_print=True)
    # Without their marks documents are not kept together, and a Doc is a sentence.
    lines = [line for line in text.splitlines() if not line.startswith("-DOCSTART-")]
    return conll_ner_to_docs("\n".join(lines), n_sents=1, no_print=True)


def _spacy(*arguments: object) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "spacy", *map(str, arguments)]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        msg.fail(" ".join(command), finished.stdout[-2000:] + finished.stderr[-2000:], exits=1)


def _read(results: Path) -> list[dict]:
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text(encoding="utf8").splitlines()]


def _cell(line: dict) -> Cell:
    return Cell(line["task"], line["share"], line["seed"], line["system"], line["model"])


if __name__ == "__main__":
    app()
