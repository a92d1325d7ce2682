"""NER on a frozen transformer: a learned mix of all its layers against its last layer alone.

    python benchmarks/transformer_mix.py TRANSFORMER TRAIN DEV TEST --seeds 3 --output DIR

TRANSFORMER is a Hugging Face folder, the others are in WNUT 2017's format (a token and an IOB tag a
line). The transformer runs once over each sentence; what it made is kept, since it does not change.
The score is that on TEST after the epoch that was the best on DEV.
"""

import json
import random
import statistics
from argparse import ArgumentParser, RawTextHelpFormatter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, iob_to_biluo
from spacy.util import fix_random_seed, minibatch

from spacy_elmo.analysis.layers import layer_reader
from spacy_elmo.analysis.mixes import pipeline_mixes
from spacy_elmo.analysis.pipelines import load_pipeline

MIX = {"@layers": "spacy-elmo.ScalarMix.v1", "weights": "learned", "l2": 0.001}
SPLITS = ("train", "dev", "test")
SYSTEMS = {
    "last layer": {**MIX, "weights": "top"},
    "learned mix": MIX,
    "learned mix, layers normalized": {**MIX, "normalize_layers": True},
}


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
class Run:
    """The best epoch on dev: F-scores, and the weights of the layers."""

    dev: float = 0.0
    test: float = 0.0
    weights: list[float] = field(default_factory=list)


def run(
    nlp: Language, mix: dict[str, Any], data: dict[str, list[Example]], seed: int, epochs: int
) -> Run:
    fix_random_seed(seed)
    add_ner(nlp, mix)
    ner: Any = nlp.get_pipe("ner")
    ner.initialize(lambda: data["train"], nlp=nlp)
    optimizer = nlp.create_optimizer()
    shuffled = list(data["train"])
    best = Run()
    with nlp.select_pipes(enable=["ner"]):
        for _ in range(epochs):
            random.shuffle(shuffled)
            for batch in minibatch(shuffled, 16):
                nlp.update(batch, sgd=optimizer, drop=0.1)
            dev = f_score(ner, data["dev"])
            if dev >= best.dev:
                weights = pipeline_mixes(nlp)[0].weights.tolist()
                best = Run(dev, f_score(ner, data["test"]), weights)
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


def told(scores: list[float]) -> str:
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    return f"{statistics.mean(scores):.1f} ± {spread:.1f}"


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawTextHelpFormatter)
    parser.add_argument("transformer")
    for split in SPLITS:
        parser.add_argument(split, type=Path)
    parser.add_argument("--sentences", type=int, help="Most sentences of each split (all)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--output", type=Path, help="Folder for transformer-mix.json")
    args = parser.parse_args()
    nlp = load_pipeline(args.transformer)
    layer_reader(nlp)  # makes the transformer return all its layers
    transformer: Any = nlp.get_pipe("transformer")
    data = {split: list(read(getattr(args, split), nlp))[: args.sentences] for split in SPLITS}
    for examples in data.values():
        docs = transformer.pipe([example.predicted for example in examples], batch_size=32)
        for example, doc in zip(examples, docs, strict=True):
            example.predicted = doc
    print("| NER on | F1, dev | F1, test | weights of layers, layer 0 first |")
    print("| --- | --- | --- | --- |")
    results: dict[str, list[dict[str, Any]]] = {}
    for name, mix in SYSTEMS.items():
        runs = [run(nlp, mix, data, seed, args.epochs) for seed in range(args.seeds)]
        results[name] = [asdict(each) for each in runs]
        weights = [statistics.mean(w) for w in zip(*(each.weights for each in runs), strict=True)]
        dev, test = told([each.dev for each in runs]), told([each.test for each in runs])
        told_weights = " ".join(f"{weight:.2f}" for weight in weights)
        print(f"| {name} | {dev} | {test} | {told_weights} |", flush=True)
    if args.output:
        about = {"args": vars(args), "sentences": {split: len(data[split]) for split in SPLITS}}
        text = json.dumps({**about, "results": results}, default=str, indent=2)
        args.output.mkdir(parents=True, exist_ok=True)
        (args.output / "transformer-mix.json").write_text(text + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
