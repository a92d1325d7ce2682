"""Make bilm_tf_tokens.hdf5: token vectors of a vocabulary, by simple_elmo, which is bilm-tf's own code.

Run after make_bilm_tf.py, in its environment:
    TF_USE_LEGACY_KERAS=1 scratch/bin/python tests/references/make_token_cache.py
"""

import tempfile
from pathlib import Path

import h5py
import numpy as np
import tensorflow as tf
from simple_elmo.model import dump_token_embeddings

HERE = Path(__file__).parent


def main() -> None:
    tf.compat.v1.disable_eager_execution()
    with tempfile.TemporaryDirectory() as scratch:
        options, weights = Path(scratch, "options.json"), Path(scratch, "model.hdf5")
        with np.load(HERE / "bilm_tf_published.npz") as stored, h5py.File(weights, "w") as file:
            options.write_text(str(stored["options"]))
            for key in stored:
                if key.startswith("weights/"):
                    file[key.removeprefix("weights/")] = stored[key]
        vocabulary = HERE / "bilm_tf_tokens.txt"
        target = HERE / "bilm_tf_tokens.hdf5"
        dump_token_embeddings(str(vocabulary), str(options), str(weights), str(target))


if __name__ == "__main__":
    main()
