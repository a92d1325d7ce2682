"""spacy-transformers for pipelines.py: reads Docs' words as lines of JSON, answers with the seconds.

    python -m venv scratch
    scratch/bin/pip install torch==2.13.0 && scratch/bin/pip install "spacy-transformers>=1.4,<1.5"

Started as `PYTHON pipelines_with_transformer.py THREADS SIZE`, SIZE "base" or "tiny". The first line is
of Docs whose words the tokenizer learns its pieces from, as no published one is at hand.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertModel, BertTokenizerFast

PIECES = 8000
# BERT base's sizes are BertConfig's own.
SIZES = {
    "base": {},
    "tiny": {
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    },
}


def make(place: Path, docs: list[list[str]], size: str) -> Language:
    """Random weights; the spans are spacy-transformers' default."""
    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator((" ".join(words) for words in docs), PIECES, show_progress=False)
    tokenizer.save_model(str(place))
    BertTokenizerFast(str(place / "vocab.txt")).save_pretrained(place)
    BertModel(BertConfig(vocab_size=PIECES, **SIZES[size])).save_pretrained(place)
    nlp = spacy.blank("en")
    nlp.add_pipe("transformer", config={"model": {"name": str(place)}})
    nlp.initialize()
    return nlp


def main(threads: int, size: str) -> None:
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as name:
        nlp = make(Path(name), json.loads(sys.stdin.readline())["docs"], size)
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        docs = [Doc(nlp.vocab, words=words) for words in json.loads(line)["docs"]]
        start = time.perf_counter()
        words = sum(len(doc) for doc in nlp.pipe(docs))
        seconds = time.perf_counter() - start
        reading = {"seconds": seconds, "words": words, "words/s": words / seconds}
        print(json.dumps(reading), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
