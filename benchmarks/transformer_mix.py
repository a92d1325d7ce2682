"""NER on a frozen transformer: a learned mix of all its layers against its last layer alone.

    python benchmarks/transformer_mix.py TRANSFORMER TRAIN DEV --sentences 1500 --seeds 3

TRANSFORMER is a Hugging Face folder, TRAIN and DEV are in WNUT 2017's format (a token and an IOB tag a
line). The transformer runs once over each sentence; what it made is kept, since it does not change.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Iterator
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


def run(
    nlp: Language,
    mix: dict[str, Any],
    train: list[Example],
    dev: list[Example],
    seed: int,
    epochs: int,
) -> tuple[float, list[float]]:
    """Best F-score on dev over the epochs, and the weights of the layers then."""
    fix_random_seed(seed)
    add_ner(nlp, mix)
    ner: Any = nlp.get_pipe("ner")
    ner.initialize(lambda: train, nlp=nlp)
    optimizer = nlp.create_optimizer()
    shuffled = list(train)
    best, weights = 0.0, []
    with nlp.select_pipes(enable=["ner"]):
        for _ in range(epochs):
            random.shuffle(shuffled)
            for batch in minibatch(shuffled, 16):
                nlp.update(batch, sgd=optimizer, drop=0.1)
            for example, doc in zip(dev, ner.pipe(clear(dev), batch_size=64), strict=True):
                example.predicted = doc
            score = ner.score(dev)["ents_f"] or 0.0
            if score > best:
                best, weights = score, pipeline_mixes(nlp)[0].weights.tolist()
    nlp.remove_pipe("ner")
    return best, weights


def clear(examples: list[Example]) -> Iterator[Doc]:
    for example in examples:
        example.predicted.ents = ()
        yield example.predicted


def _spread(scores: list[float]) -> float:
    return statistics.stdev(scores) if len(scores) > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transformer")
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--sentences", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    nlp = load_pipeline(args.transformer)
    layer_reader(nlp)  # makes the transformer return all its layers
    transformer: Any = nlp.get_pipe("transformer")
    train = list(read(args.train, nlp))[: args.sentences]
    dev = list(read(args.dev, nlp))[: args.sentences]
    for examples in (train, dev):
        for example, doc in zip(
            examples, transformer.pipe([e.predicted for e in examples], batch_size=32), strict=True
        ):
            example.predicted = doc
    results: dict[str, Any] = {}
    for name, mix in SYSTEMS.items():
        start = time.time()
        runs = [run(nlp, mix, train, dev, seed, args.epochs) for seed in range(args.seeds)]
        scores = [100 * score for score, _ in runs]
        results[name] = {"f": scores, "weights": [weights for _, weights in runs]}
        mean, spread = statistics.mean(scores), _spread(scores)
        each = " ".join(f"{score:.1f}" for score in scores)
        print(f"{name}: F {mean:.1f} +-{spread:.1f} ({each}), {time.time() - start:.0f} s")
        weights = [round(statistics.mean(w), 3) for w in zip(*(w for _, w in runs), strict=True)]
        print("  layers:", weights, flush=True)
    if args.output:
        args.output.write_text(
            json.dumps({"args": vars(args), "results": results}, default=str, indent=2)
        )


if __name__ == "__main__":
    main()
