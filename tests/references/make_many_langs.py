"""Make the references in ELMoForManyLangs' layout: small models, and vectors by elmoformanylangs.

Run in an environment of its own (this package's tests do not need it):
    python -m venv scratch && scratch/bin/pip install torch==2.13.0 h5py overrides
    scratch/bin/pip install --no-deps elmoformanylangs
    scratch/bin/python tests/references/make_many_langs.py

Writes many_langs_VARIANT/ beside itself: a model's directory, and layers.npz.
"""

import json
import random
import shutil
import sys
import types
from pathlib import Path

import numpy as np

if "overrides" not in sys.modules:
    # Today's overrides checks what the reference program's signatures never promised.
    stub = types.ModuleType("overrides")
    stub.overrides = lambda method: method
    sys.modules["overrides"] = stub

import torch
from elmoformanylangs import Embedder
from elmoformanylangs.frontend import Model
from elmoformanylangs.modules.embedding_layer import EmbeddingLayer

HERE = Path(__file__).parent
SENTENCES = json.loads((HERE / "sentences.json").read_text(encoding="utf8"))
MARKS = ["<bos>", "<eos>", "<oov>", "<pad>"]
SIZES = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 6,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 9,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 4], [2, 4], [3, 6]],
        "n_highway": 2,
        "word_dim": 5,
        "char_dim": 3,
        "max_characters_per_token": 50,
    },
    "classifier": {"name": "sampled_softmax", "n_samples": 8192},
    "dropout": 0.1,
}
# What differs: (encoder, token_embedder).
VARIANTS: dict[str, tuple[dict, dict]] = {
    "published": ({}, {}),
    "no_words": ({"cell_clip": 0.5, "proj_clip": 0.4}, {"word_dim": 0, "activation": "tanh"}),
    # Widths agree, yet both projections are there.
    "square": ({"dim": 6, "n_layers": 3, "cell_clip": 0}, {"filters": [[2, 1]], "n_highway": 1}),
    "short_words": ({}, {"max_characters_per_token": 12}),
}


def lexicons() -> tuple[dict[str, int], dict[str, int]]:
    """Characters and words of the sentences, but not all: the rest is unknown."""
    chance = random.Random(0)
    words = sorted({word for sentence in SENTENCES for word in sentence if "\u3000" not in word})
    characters = sorted(
        {character for sentence in SENTENCES for word in sentence for character in word}
    )
    kept = [c for c in characters if c == "\u3000" or chance.random() < 0.8]
    known = [w for w in words if chance.random() < 0.6 and "日" not in w]
    return (
        {c: i for i, c in enumerate([*MARKS, "<bow>", "<eow>", *kept])},
        {w: i for i, w in enumerate([*MARKS, *known])},
    )


def write_lexicon(path: Path, lexicon: dict[str, int]) -> None:
    lines = [f"{entry}\t{i}\n" for entry, i in lexicon.items()]
    path.write_text("".join(lines), encoding="utf8", newline="\n")


def main() -> None:
    characters, words = lexicons()
    for name, (encoder, embedder) in VARIANTS.items():
        place = HERE / f"many_langs_{name}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        sizes = {
            **SIZES,
            "encoder": {**SIZES["encoder"], **encoder},
            "token_embedder": {**SIZES["token_embedder"], **embedder},
        }
        (place / "sizes.json").write_text(json.dumps(sizes, indent=1) + "\n")
        # As published: a path on the machine where the model was trained.
        config = {"config_path": "/users4/conll18st/elmo/configs/sizes.json", "max_epoch": 10}
        (place / "config.json").write_text(json.dumps(config) + "\n")
        write_lexicon(place / "char.dic", characters)
        write_lexicon(place / "word.dic", words)
        torch.manual_seed(0)
        word_dim = sizes["token_embedder"]["word_dim"]
        layer = EmbeddingLayer(word_dim, words, fix_emb=False) if word_dim else None
        model = Model(sizes, layer, EmbeddingLayer(3, characters, fix_emb=False))
        with torch.no_grad():
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, std=0.6)
        torch.save(model.token_embedder.state_dict(), place / "token_embedder.pkl")
        torch.save(model.encoder.state_dict(), place / "encoder.pkl")
        # All sentences in one batch of a fresh program: each one starts from the zero state.
        layers = Embedder(str(place), batch_size=64).sents2elmo(SENTENCES, output_layer=-2)
        np.savez_compressed(
            place / "layers.npz", **{f"layers/{i}": x for i, x in enumerate(layers)}
        )


if __name__ == "__main__":
    main()
