"""Make bilm_tf_losses.json: what bilm-tf's own program loses on a text with its checkpoint.

Run after make_bilm_tf.py, in its environment:
    TF_USE_LEGACY_KERAS=1 scratch/bin/python tests/references/make_losses.py

One stream, the LSTM's state carried from sentence to sentence, as bilm-tf's `test` reads: nats a
prediction, by the full softmax, of each direction.
"""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf
from simple_elmo import training

HERE = Path(__file__).parent
TEXT = [
    ["the", "play", "."],
    ["a", "fox", "said", "the", "the", "Ärger", "of", "日本語", "."],
    ["."],
    ["play", "the", "incomprehensibilitiesincomprehensibilitiesincomprehensibilities", "a"],
]


def main() -> None:
    tf.compat.v1.disable_eager_execution()
    place = HERE / "bilm_tf_checkpoint"
    options = json.loads((place / "options.json").read_text())
    options |= {"batch_size": 1, "unroll_steps": 1}
    vocabulary = training.load_vocab(str(place / "vocab.txt"), 50)
    with tf.compat.v1.Session() as session:
        with tf.compat.v1.variable_scope("lm"):
            model = training.LanguageModel(options, False)
            tf.compat.v1.train.Saver().restore(session, str(place / "model.ckpt-7"))
        characters = np.zeros([1, 1, 50], np.int32)
        feed = {model.tokens_characters: characters, model.tokens_characters_reverse: characters}
        state = session.run(model.init_lstm_state, feed)
        losses = []
        text = [" ".join(sentence) for sentence in TEXT]
        for batch in training.pack_encoded(text, vocabulary, 1):
            feed = dict(zip(model.init_lstm_state, state, strict=True))
            feed |= training._get_feed_dict_from_x(batch, 0, 1, model, True, True)
            loss, state = session.run([model.individual_losses, model.final_lstm_state], feed)
            losses.append(loss)
    forward, backward = np.mean(np.array(losses, np.float64), axis=0)
    found = {
        "text": TEXT,
        "predictions": len(losses),
        "forward": float(forward),
        "backward": float(backward),
    }
    path = HERE / "bilm_tf_losses.json"
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
