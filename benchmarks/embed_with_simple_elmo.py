"""simple_elmo for embed.py: reads sentences as lines of JSON, answers with the seconds it took.

    python3.11 -m venv scratch
    scratch/bin/pip install "tensorflow-cpu<2.16" simple_elmo

Started as `PYTHON embed_with_simple_elmo.py DIRECTORY THREADS`.
"""

import json
import logging
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from simple_elmo import ElmoModel
from simple_elmo.elmo import weight_layers

LARGEST_BATCH = 128


def main(directory: str, threads: int) -> None:
    model = ElmoModel()
    logging.disable(logging.INFO)
    model.load(directory, max_batch_size=LARGEST_BATCH)
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    with tf.compat.v1.Session(config=config) as session:
        # What it does itself at each call without a session.
        model.elmo_sentence_input = weight_layers(
            "input", model.sentence_embeddings_op, use_layers="all"
        )
        session.run(tf.compat.v1.global_variables_initializer())
        print(json.dumps({}), flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            sentences, size = request["sentences"], request["size"]
            model.batch_size = size
            start, kept = time.perf_counter(), []
            if request["by_length"]:
                sentences = sorted(sentences, key=len)
            # A call a batch: it pads all of a call's sentences to the longest.
            for at in range(0, len(sentences), size):
                batch = sentences[at : at + size]
                layers = model.get_elmo_vectors(batch, warmup=False, layers="all", session=session)
                kept += [X[:, : len(words)] for X, words in zip(layers, batch, strict=True)]
            seconds = time.perf_counter() - start
            total = float(sum(np.abs(layers).sum() for layers in kept))
            print(json.dumps({"seconds": seconds, "sum": total}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
