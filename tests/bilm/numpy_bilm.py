"""A second implementation of the biLM: loops of numpy in float64 over the published files.

It shares nothing with spacy_elmo.bilm and takes no short cut, so that a mistake has to be made twice
to pass. Written from bilm-tf's graph and from TensorFlow's LSTMCell, whose gates are i, j, f, o.
"""

import json
from pathlib import Path

import h5py
import numpy as np

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260
BOUNDARY = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}


class NumpyBiLM:
    def __init__(self, options: Path, weights: Path):
        options = json.loads(options.read_text())
        self.lstm, self.cnn = options["lstm"], options["char_cnn"]
        self.weights = {}
        with h5py.File(weights) as file:
            file.visititems(self._keep)

    def _keep(self, name, item):
        if isinstance(item, h5py.Dataset):
            self.weights[name] = item[()].astype("float64")

    def embed(self, sentences):
        """Layers of each sentence, (layers, words, width), each read from the zero state."""
        return [self.carry([sentence])[0] for sentence in sentences]

    def carry(self, sentences):
        """The same, each read from the state in which the one before it ended."""
        forward = [self._zero() for _ in range(self.lstm["n_layers"])]
        backward = [self._zero() for _ in range(self.lstm["n_layers"])]
        return [self._sentence(sentence, forward, backward) for sentence in sentences]

    def _zero(self):
        return {"h": np.zeros(self.lstm["projection_dim"]), "c": np.zeros(self.lstm["dim"])}

    def _sentence(self, sentence, forward, backward):
        tokens = [self.word("<S>", boundary=True)]
        tokens += [self.word(word) for word in sentence]
        tokens += [self.word("</S>", boundary=True)]
        ahead = [self._stack(0, token, forward) for token in tokens]
        behind = [self._stack(1, token, backward) for token in reversed(tokens)][::-1]
        rows = [
            [np.concatenate([token, token])]
            + [np.concatenate(pair) for pair in zip(up, down, strict=True)]
            for token, up, down in zip(tokens, ahead, behind, strict=True)
        ]
        n_layers, width = self.lstm["n_layers"] + 1, 2 * self.lstm["projection_dim"]
        return np.array(rows[1:-1]).reshape(-1, n_layers, width).transpose(1, 0, 2)

    def word(self, word, *, boundary=False):
        """A token vector: all characters, padding too, through the CNN."""
        size = self.cnn["max_characters_per_token"]
        inside = [BOUNDARY[word]] if boundary else list(word.encode("utf-8", "ignore"))
        ids = [BEGIN_WORD, *inside[: size - 2], END_WORD]
        ids += [PADDING] * (size - len(ids))
        characters = self.weights["char_embed"][ids]
        x = np.concatenate([self._convolve(i, characters) for i in range(len(self.cnn["filters"]))])
        for i in range(self.cnn.get("n_highway", 0)):
            at = f"CNN_high_{i}"
            gate = sigmoid(x @ self.weights[f"{at}/W_carry"] + self.weights[f"{at}/b_carry"])
            new = x @ self.weights[f"{at}/W_transform"] + self.weights[f"{at}/b_transform"]
            x = gate * np.maximum(new, 0) + (1 - gate) * x
        if len(x) != self.lstm["projection_dim"]:
            x = x @ self.weights["CNN_proj/W_proj"] + self.weights["CNN_proj/b_proj"]
        return x

    def _convolve(self, i, characters):
        kernel, bias = self.weights[f"CNN/W_cnn_{i}"][0], self.weights[f"CNN/b_cnn_{i}"]
        width = len(kernel)
        at = [
            sum(characters[start + k] @ kernel[k] for k in range(width))
            for start in range(len(characters) - width + 1)
        ]
        pooled = np.max(at, axis=0) + bias
        return np.maximum(pooled, 0) if self.cnn["activation"] == "relu" else np.tanh(pooled)

    def _stack(self, direction, x, states):
        """One position through the layers of one direction; states are moved on in place."""
        outputs = []
        for i, state in enumerate(states):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{i}/LSTMCell"
            y = self._cell(cell, x, state)
            if self.lstm.get("use_skip_connections") and i > 0:
                y = y + x
            outputs.append(y)
            x = y
        return outputs

    def _cell(self, name, x, state):
        gates = np.concatenate([x, state["h"]]) @ self.weights[f"{name}/W_0"]
        i, j, f, o = np.split(gates + self.weights[f"{name}/B"], 4)
        c = sigmoid(f + 1.0) * state["c"] + sigmoid(i) * np.tanh(j)
        state["c"] = clip(c, self.lstm.get("cell_clip"))
        h = sigmoid(o) * np.tanh(state["c"])
        if self.lstm["projection_dim"] < self.lstm["dim"]:
            h = clip(h @ self.weights[f"{name}/W_P_0"], self.lstm.get("proj_clip"))
        state["h"] = h
        return h


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def clip(x, bound):
    return x if bound is None else np.clip(x, -bound, bound)
