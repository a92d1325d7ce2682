"""The English biLM that the package carries."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy

import spacy_elmo
from spacy_elmo.bilm.loading import find

MODEL = Path(spacy_elmo.__file__).parent / "models" / "en_elmo_sm"


def test_it_is_small_and_has_a_card():
    assert sum(file.stat().st_size for file in MODEL.iterdir()) < 8e6
    card = (MODEL / "README.md").read_text(encoding="utf8")
    for part in ("Data and licences", "held out", "Limits"):
        assert part in card


def test_it_is_the_default_and_works_at_once():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    doc = nlp("They play a play.")
    assert doc._.elmo.layers.shape == (3, 5, 256)
    assert np.isfinite(doc._.elmo.layers).all()
    np.testing.assert_array_equal(doc._.elmo.layers[0, 1], doc._.elmo.layers[0, 3])
    assert doc[1].similarity(doc[3]) < 0.999


def test_it_knows_words_of_a_kind():
    """Not what it is worth, only that these are trained weights: two verbs against a noun."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    walked, talked, house = (nlp(f"She {word} .")[1] for word in ("walked", "talked", "house"))
    assert walked.similarity(talked) > walked.similarity(house)


def test_it_needs_no_network(tmp_path):
    """In a process whose sockets are gone."""
    code = (
        "import socket\n"
        "def refuse(*args, **kwargs): raise OSError('network')\n"
        "socket.socket.connect = socket.create_connection = refuse\n"
        "import spacy\n"
        "nlp = spacy.blank('en'); nlp.add_pipe('elmo')\n"
        f"nlp.initialize(); nlp.to_disk({str(tmp_path / 'nlp')!r})\n"
        f"assert spacy.load({str(tmp_path / 'nlp')!r})('One word.').tensor.any()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("where", ["en_elmo_sm", MODEL])
def test_its_headers_are_those_of_its_config(where):
    assert find(where).inspect().width == 256
