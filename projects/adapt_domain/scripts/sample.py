"""Keep a random share of a corpus's Docs."""

import random
from pathlib import Path

import typer
from spacy.tokens import DocBin
from spacy.vocab import Vocab
from wasabi import msg


def main(corpus: Path, output: Path, share: int = 10, seed: int = 0) -> None:
    """share: In per cent."""
    docs = list(DocBin().from_disk(corpus).get_docs(Vocab()))
    kept = random.Random(seed).sample(docs, max(1, len(docs) * share // 100))
    DocBin(docs=kept).to_disk(output)
    msg.good(f"{output}: {len(kept):,} of {len(docs):,} Docs")


if __name__ == "__main__":
    typer.run(main)
