"""NER on a frozen transformer: a learned mix of all its layers against its last layer alone.

    python benchmarks/transformer_mix.py run --data ../shared/data/wnut17
    python benchmarks/transformer_mix.py table

The transformer runs once over each sentence; what it made is kept, since it does not change. Each run (a
system, a seed) trains a NER component on it, and is scored on test after the epoch that was the best on
dev. A result is a line of a file; what stands there is not run again.
"""

import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import typer
from minilm import MINILM, transformer_folder
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, iob_to_biluo
from spacy.util import fix_random_seed, minibatch
from tqdm import tqdm

from spacy_elmo.analysis.layers import layer_reader
from spacy_elmo.analysis.mixes import pipeline_mixes
from spacy_elmo.analysis.pipelines import load_pipeline

RESULTS = Path(__file__).parent / "results" / "transformer_mix.jsonl"
FILES = {
    "train": "wnut17train.conll",
    "dev": "emerging.dev.conll",
    "test": "emerging.test.annotated",
}
MIX = {"@layers": "spacy-elmo.ScalarMix.v1", "weights": "learned", "l2": 0.001}
SYSTEMS = {
    "last layer": {**MIX, "weights": "top"},
    "learned mix": MIX,
    "learned mix, layers normalized": {**MIX, "normalize_layers": True},
}
app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)


def read(path: Path, nlp: Language) -> Iterator[Example]:
    """Sentences, with the tokens as they are."""
    for block in path.read_text(encoding="utf8").split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line.strip()]
        if rows:
            words, tags = [row[0] for row in rows], [row[1] for row in rows]
            gold = Doc(nlp.vocab, words=words, ents=iob_to_biluo_tags(tags))
            yield Example(Doc(nlp.vocab, words=words), gold)


def iob_to_biluo_tags(tags: list[str]) -> list[str]:
    """Doc takes IOB; repaired first, where an entity begins with I."""
    return [tag.replace("U-", "B-").replace("L-", "I-") for tag in iob_to_biluo(tags)]


def add_ner(nlp: Language, mix: dict[str, Any]) -> None:
    listener = {
        "@architectures": "spacy-elmo.TransformerMixListener.v1",
        "mix": mix,
        "dropout": 0.3,
    }
    model = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 64,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": listener,
    }
    nlp.add_pipe("ner", config={"model": model})


@dataclass
class Best:
    """The best epoch on dev: F-scores, and the weights of the layers, layer 0 first."""

    dev: float = 0.0
    test: float = 0.0
    weights: list[float] = field(default_factory=list)


def train(
    nlp: Language, mix: dict[str, Any], data: dict[str, list[Example]], seed: int, epochs: int
) -> Best:
    fix_random_seed(seed)
    add_ner(nlp, mix)
    ner: Any = nlp.get_pipe("ner")
    ner.initialize(lambda: data["train"], nlp=nlp)
    optimizer = nlp.create_optimizer()
    shuffled = list(data["train"])
    best = Best()
    with nlp.select_pipes(enable=["ner"]):
        for _ in range(epochs):
            random.shuffle(shuffled)
            for batch in minibatch(shuffled, 16):
                nlp.update(batch, sgd=optimizer, drop=0.1)
            dev = f_score(ner, data["dev"])
            if dev >= best.dev:
                weights = pipeline_mixes(nlp)[0].weights.tolist()
                best = Best(dev, f_score(ner, data["test"]), weights)
    nlp.remove_pipe("ner")
    return best


def f_score(ner: Any, examples: list[Example]) -> float:
    for example, doc in zip(examples, ner.pipe(clear(examples), batch_size=64), strict=True):
        example.predicted = doc
    return 100 * (ner.score(examples)["ents_f"] or 0.0)


def clear(examples: list[Example]) -> Iterator[Doc]:
    for example in examples:
        example.predicted.ents = ()
        yield example.predicted


@app.command()
def run(
    data: Path = typer.Option(..., help="The folder of WNUT 2017's files", exists=True),
    transformer: str = typer.Option(MINILM, help="A package with one, or a transformer's folder"),
    seeds: int = typer.Option(3, help="Runs of each system"),
    epochs: int = typer.Option(10, help="Of training"),
    sentences: int | None = typer.Option(None, help="Most sentences of each split (all)"),
    results: Path = typer.Option(RESULTS, help="Where results are, and are added"),
) -> None:
    """Train and score what is not among the results yet."""
    folder = transformer_folder(transformer)
    about = {"model": Path(transformer).name, "data": data.resolve().name}
    settings = {"epochs": epochs, "sentences": sentences}
    cells = [
        {**about, **settings, "system": system, "seed": seed}
        for seed in range(seeds)
        for system in SYSTEMS
    ]
    done = [{key: line.get(key) for key in cells[0]} for line in _read(results)]
    if not (todo := [cell for cell in cells if cell not in done]):
        return
    nlp = load_pipeline(str(folder))
    layer_reader(nlp)  # makes the transformer return all its layers
    examples = {split: list(read(data / file, nlp))[:sentences] for split, file in FILES.items()}
    for each in examples.values():
        _embed(nlp, each)
    results.parent.mkdir(parents=True, exist_ok=True)
    for cell in tqdm(todo, unit="run"):
        started = time.time()
        best = train(nlp, SYSTEMS[cell["system"]], examples, cell["seed"], epochs)
        line = {**cell, **asdict(best), "seconds": round(time.time() - started)}
        with results.open("a", encoding="utf8") as file:
            file.write(json.dumps(line) + "\n")


@app.command()
def table(results: Path = typer.Option(RESULTS, help="Where results are")) -> None:
    """Print the results in Markdown: mean and standard deviation over the seeds."""
    runs: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in _read(results):
        runs[line["model"], line["system"]].append(line)
    print("| model | NER on | seeds | F1, dev | F1, test | weights of layers, layer 0 first |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (model, system), lines in runs.items():
        scores = [told([line[split] for line in lines]) for split in ("dev", "test")]
        weights = zip(*(line["weights"] for line in lines), strict=True)
        mean = " ".join(f"{statistics.mean(each):.2f}" for each in weights)
        print(f"| {model} | {system} | {len(lines)} |", " | ".join([*scores, mean]), "|")


def told(scores: list[float]) -> str:
    spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
    return f"{statistics.mean(scores):.1f}{spread}"


def _embed(nlp: Language, examples: list[Example]) -> None:
    transformer: Any = nlp.get_pipe("transformer")
    docs = transformer.pipe([example.predicted for example in examples], batch_size=32)
    for example, doc in zip(examples, tqdm(docs, total=len(examples), unit=" docs"), strict=True):
        example.predicted = doc


def _read(results: Path) -> list[dict[str, Any]]:
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text(encoding="utf8").splitlines()]


if __name__ == "__main__":
    app()
