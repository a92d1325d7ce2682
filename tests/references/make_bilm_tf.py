"""Make the references in bilm-tf's layouts: weights, and vectors by simple_elmo, which is its graph.

Run in an environment of its own (this package's tests need neither):
    python -m venv scratch && scratch/bin/pip install tensorflow tf_keras simple_elmo==0.9.2
    TF_USE_LEGACY_KERAS=1 scratch/bin/python tests/references/make_bilm_tf.py

Writes beside itself bilm_tf_VARIANT.npz (options, weights, layers of each sentence from the zero state)
and bilm_tf_checkpoint/ (a checkpoint of bilm-tf's training graph, with its optimizer's slots).
"""

import json
import shutil
import tempfile
from pathlib import Path

import h5py
import numpy as np
import tensorflow as tf
from simple_elmo import ElmoModel, training

HERE = Path(__file__).parent
SENTENCES = json.loads((HERE / "sentences.json").read_text(encoding="utf8"))
LSTM = {
    "projection_dim": 6,
    "dim": 9,
    "n_layers": 2,
    "cell_clip": 1.0,
    "proj_clip": 1.0,
    "use_skip_connections": True,
}
CNN = {
    "activation": "relu",
    "embedding": {"dim": 3},
    "filters": [[1, 4], [2, 4], [3, 6]],
    "n_highway": 2,
    "n_characters": 262,
    "max_characters_per_token": 50,
}
# What differs: (lstm, char_cnn).
VARIANTS: dict[str, tuple[dict, dict]] = {
    "published": ({}, {}),
    "tanh_one_highway": ({}, {"activation": "tanh", "n_highway": 1}),
    "no_highway_no_skip": ({"use_skip_connections": False}, {"n_highway": 0}),
    "characters_not_projected": ({}, {"filters": [[1, 2], [4, 4]]}),
    "cells_not_projected": ({"dim": 6}, {}),
    "short_words": ({"n_layers": 3}, {"max_characters_per_token": 12}),
}
TRAINING = {
    "bidirectional": True,
    "dropout": 0.1,
    "n_tokens_vocab": 9,
    "n_negative_samples_batch": 4,
    "batch_size": 2,
    "unroll_steps": 3,
    "n_epochs": 1,
    "all_clip_norm_val": 10.0,
}


def make_checkpoint(options: dict, place: Path) -> None:
    """As bilm-tf's `train` saves it: weights of random values, Adagrad's slots, counters."""
    char_cnn = {**options["char_cnn"], "n_characters": 261}
    options = {**TRAINING, **options, "char_cnn": char_cnn}
    place.mkdir(parents=True)
    (place / "options.json").write_text(json.dumps(options, indent=2) + "\n")
    random = np.random.default_rng(0)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("global_step", [], trainable=False)
        with tf.compat.v1.variable_scope("lm"):
            model = training.LanguageModel(options, True)
        optimizer = tf.compat.v1.train.AdagradOptimizer(0.2, initial_accumulator_value=1.0)
        optimizer.minimize(model.total_loss)
        session.run(tf.compat.v1.global_variables_initializer())
        for variable in tf.compat.v1.trainable_variables():
            variable.load(random.normal(scale=0.6, size=variable.shape), session)
        saver = tf.compat.v1.train.Saver(tf.compat.v1.global_variables(), max_to_keep=2)
        saver.save(session, str(place / "model.ckpt"), global_step=7, write_meta_graph=False)


def embed(place: Path) -> list[np.ndarray]:
    """Layers of each sentence, read on its own from the zero state: (layers, words, width)."""
    results = []
    for sentence in SENTENCES:
        tf.compat.v1.reset_default_graph()
        model = ElmoModel()
        model.load(str(place), max_batch_size=1)
        layers = model.get_elmo_vectors([sentence or ["."]], warmup=False, layers="all")[0]
        results.append(np.asarray(layers, np.float32)[:, : len(sentence)])
    return results


def main() -> None:
    for name, (lstm, cnn) in VARIANTS.items():
        options = {"lstm": {**LSTM, **lstm}, "char_cnn": {**CNN, **cnn}}
        with tempfile.TemporaryDirectory() as scratch:
            checkpoint, model = Path(scratch, "checkpoint"), Path(scratch, "model")
            make_checkpoint(options, checkpoint)
            model.mkdir()
            with tf.Graph().as_default():
                training.dump_weights(str(checkpoint), str(model / "model.hdf5"))
            (model / "options.json").write_text(json.dumps(options))
            vectors = embed(model)
            weights: dict[str, np.ndarray] = {}
            with h5py.File(model / "model.hdf5") as file:
                file.visititems(
                    lambda at, item, into=weights: (
                        into.update({f"weights/{at}": item[()]})
                        if isinstance(item, h5py.Dataset)
                        else None
                    )
                )
            np.savez_compressed(
                HERE / f"bilm_tf_{name}.npz",
                options=np.array(json.dumps(options)),
                **weights,
                **{f"layers/{i}": layers for i, layers in enumerate(vectors)},
            )
            if name == "published":
                shutil.rmtree(HERE / "bilm_tf_checkpoint", ignore_errors=True)
                shutil.copytree(checkpoint, HERE / "bilm_tf_checkpoint")
                latest = HERE / "bilm_tf_checkpoint" / "checkpoint"
                elsewhere = latest.read_text().replace(str(checkpoint), "/where/it/was/trained")
                latest.write_text(elsewhere)
                (HERE / "bilm_tf_checkpoint" / "vocab.txt").write_text(
                    "<S>\n</S>\n<UNK>\nthe\n.\na\nof\nplay\nsaid\n"
                )


if __name__ == "__main__":
    main()
