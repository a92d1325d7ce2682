"""A small text in three files and a small config, made here."""

import random
from pathlib import Path

import pytest
from confection import Config

WORDS = [f"{a}{b}{c}" for a in "bdkm" for b in "aeiou" for c in "nrst"]

CONFIG = """
[paths]
raw_text = null
dev_text = null

[system]
seed = 1
threads = 1
device = "cpu"

[corpora]

[corpora.train]
@readers = "spacy-elmo.TokenizedText.v1"
paths = ${paths.raw_text}

[corpora.dev]
@readers = "spacy-elmo.TokenizedText.v1"
paths = ${paths.dev_text}

[bilm]
char_dim = 4
filters = [[1,4],[2,8],[3,8]]
n_highway = 1
projection_dim = 12
cell_dim = 24
n_layers = 2
cell_clip = 3.0
projection_clip = 3.0
skip_connections = true

[pretraining]
max_steps = 12
n_streams = 6
window = 5
n_samples = 30
dropout = 0.2
eval_frequency = 5
checkpoint_frequency = 4
buffer_words = 200
chunk_words = 50

[pretraining.vocabulary]
min_count = 2
max_size = 60

[pretraining.optimizer]
@optimizers = "spacy-elmo.Adam.v1"

[pretraining.optimizer.learn_rate]
@schedules = "warmup_linear.v1"
initial_rate = 0.01
warmup_steps = 3
total_steps = ${pretraining.max_steps}

[pretraining.logger]
@loggers = "spacy-elmo.ProgressBar.v1"
"""


def make_text(seed: int, n_documents: int) -> str:
    """Sentences in which a word depends on the one before it, so that there is something to learn."""
    draw = random.Random(seed)
    documents = []
    for _ in range(n_documents):
        sentences = []
        for _ in range(draw.randint(1, 6)):
            place = draw.randrange(len(WORDS))
            sentence = []
            for _ in range(draw.randint(1, 14)):
                sentence.append(WORDS[place])
                place = (place * 3 + draw.randrange(3)) % len(WORDS)
            sentences.append(" ".join(sentence))
        documents.append("\n".join(sentences))
    return "\n\n".join(documents) + "\n"


@pytest.fixture(scope="session")
def text_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with train-0.txt to train-2.txt and dev.txt."""
    directory = tmp_path_factory.mktemp("text")
    for number in range(3):
        text = make_text(number, 15)
        (directory / f"train-{number}.txt").write_text(text, encoding="utf8")
    (directory / "dev.txt").write_text(make_text(9, 6), encoding="utf8")
    return directory


@pytest.fixture
def config(text_files: Path) -> Config:
    overrides = {
        "paths.raw_text": str(text_files / "train-*.txt"),
        "paths.dev_text": str(text_files / "dev.txt"),
    }
    return Config().from_str(CONFIG, overrides=overrides, interpolate=False)
