"""`spacy train`, through spaCy's own functions, on a corpus of a few sentences."""

import io
import json
import shutil
import subprocess
import sys

import pytest
import spacy
from conftest import random_bilm
from pipelines import (
    add_elmo,
    add_task,
    changed,
    get_bilm,
    make_examples,
    mixes,
    predictions,
    weights_of,
)
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from thinc.api import Config

TASKS = ("tagger", "parser", "ner")
START = weights_of(random_bilm())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    place = tmp_path_factory.mktemp("corpus") / "train.spacy"
    docs = [example.reference for example in make_examples(spacy.blank("en"))]
    DocBin(docs=docs).to_disk(place)
    return place


def make_config(bilm, corpus, training=None, **elmo):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm, **elmo)
    for task in TASKS:
        add_task(nlp, task, places=("input", "output"))
    reader = {"@readers": "spacy.Corpus.v1", "path": str(corpus)}
    settings = {"max_steps": 3, "eval_frequency": 2, "patience": 0, "seed": 0, **(training or {})}
    batcher = {"@batchers": "spacy.batch_by_sequence.v1", "size": 4}
    return Config(nlp.config).merge(
        {
            "corpora": {"train": reader, "dev": reader},
            "training": {**settings, "batcher": batcher},
        }
    )


@pytest.fixture(scope="module")
def saved(bilm_dir, corpus, tmp_path_factory):
    """A pipeline whose biLM has been trained as well."""
    place = tmp_path_factory.mktemp("saved")
    run(make_config(bilm_dir, corpus, trainable=True), place)
    return place / "model-last"


def run(config, output=None):
    nlp = init_nlp(config)
    train(nlp, output, stdout=io.StringIO(), stderr=io.StringIO())
    return nlp


@pytest.mark.parametrize(
    "training",
    [
        {},
        {"accumulate_gradient": 2},
        {"frozen_components": ["ner"]},
        {"frozen_components": ["tagger", "ner"], "annotating_components": ["elmo", "tagger"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("trainable", [False, True])
def test_what_moves(bilm_dir, corpus, saved, trainable, training):
    config = make_config(bilm_dir, corpus, training, trainable=trainable)
    frozen = training.get("frozen_components", [])
    for task in frozen:
        config["components"][task] = {"source": str(saved)}
    nlp = run(config)
    for task in TASKS:
        if task in frozen:
            assert mixes(nlp.get_pipe(task)) == mixes(spacy.load(saved).get_pipe(task))
        else:
            assert all(0 not in scalars for scalars in mixes(nlp.get_pipe(task)))
    assert changed(START, weights_of(get_bilm(nlp))) == (list(START) if trainable else [])


@pytest.mark.parametrize("annotating", [True, False])
def test_a_frozen_elmo(bilm_dir, corpus, annotating):
    training = {"frozen_components": ["elmo"], "annotating_components": ["elmo"] * annotating}
    nlp = run(make_config(bilm_dir, corpus, training, trainable=True))
    assert changed(START, weights_of(get_bilm(nlp))) == []
    assert all(0 not in scalars for task in TASKS for scalars in mixes(nlp.get_pipe(task)))


def test_averaged_parameters(bilm_dir, corpus):
    training = {"optimizer": {"@optimizers": "Adam.v1", "use_averages": True}}
    nlp = run(make_config(bilm_dir, corpus, training, trainable=True))
    assert changed(START, weights_of(get_bilm(nlp))) == list(START)


def test_the_saved_pipeline_is_whole(bilm_dir, corpus, tmp_path):
    """Loaded by a new process, with the biLM that it was made from gone: the same to the last bit."""
    original = tmp_path / "original"
    shutil.copytree(bilm_dir, original)
    output = tmp_path / "output"
    output.mkdir()
    nlp = run(make_config(original, corpus), output)
    expected = predictions(nlp)
    shutil.rmtree(original)
    program = (
        "import json, sys\n"
        "import spacy\n"
        "from pipelines import predictions\n"
        "print(json.dumps(predictions(spacy.load(sys.argv[1]))))"
    )
    path = ":".join(entry for entry in sys.path if entry)
    result = subprocess.run(
        [sys.executable, "-c", program, str(output / "model-last")],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    assert json.loads(result.stdout) == expected
    assert (output / "model-best" / "elmo" / "bilm" / "weights.safetensors").is_file()


def test_training_goes_on_from_a_saved_pipeline(bilm_dir, corpus, saved):
    """As `source` of every component, biLM and all."""
    config = make_config(bilm_dir, corpus)
    for name in ("elmo", *TASKS):
        config["components"][name] = {"source": str(saved)}
    before = weights_of(get_bilm(spacy.load(saved)))
    nlp = run(config)
    assert changed(START, before) == list(START)
    assert changed(before, weights_of(get_bilm(nlp))) == list(START)
