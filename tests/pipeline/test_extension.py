"""`doc._.elmo` is the component's: nobody else writes it, and it takes the name from nobody."""

import subprocess
import sys

import pytest
import spacy
from conftest import SMALL
from pipelines import add_elmo
from spacy.tokens import Doc

from spacy_elmo.output import EXTENSION, ElmoOutput, register_extension

OWN = """
import sys
import spacy
from spacy.tokens import Doc
Doc.set_extension("elmo", {kind})
nlp = spacy.blank("en")
nlp.add_pipe("elmo", config={{"model": {{"name": sys.argv[1]}}}})
spacy.blank("en")("Other pipelines go on.")._.elmo
try:
    nlp("This one does not.")
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("value", [3, None, {}, ElmoOutput(None)])
def test_it_cannot_be_set(nlp, value):
    doc = nlp("Ann met Bob")
    for target in (doc, nlp.make_doc("Ann met Bob")):
        with pytest.raises(AttributeError) as error:
            target._.elmo = value
        message = str(error.value)
        assert f"doc._.elmo cannot be set to {value!r}, expected only the component" in message
        assert "keep your own data in an extension of another name" in message
    assert doc._.elmo.layers.shape == (SMALL.n_layers + 1, 3, SMALL.width)


@pytest.mark.parametrize("kind", ["default=7", "getter=len", "method=print"])
def test_a_users_own_extension_stays_and_elmo_refuses(bilm_dir, kind):
    """In a process of its own: a user sets it before this package is imported."""
    program = [sys.executable, "-c", OWN.format(kind=kind), str(bilm_dir)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    (message,) = done.stdout.splitlines()
    assert message == (
        "Doc._.elmo is an extension that this package did not set, expected its own, which "
        "the component `elmo` fills: give yours another name."
    )


def test_one_that_replaced_ours_is_not_written_to(bilm_dir):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir)
    before = Doc.get_extension(EXTENSION)
    Doc.set_extension(EXTENSION, default=7, force=True)
    try:
        with pytest.raises(ValueError, match="an extension that this package did not set"):
            nlp("Ann met Bob")
        register_extension()
        assert Doc.get_extension(EXTENSION)[0] == 7
    finally:
        _, _, getter, setter = before
        Doc.set_extension(EXTENSION, getter=getter, setter=setter, force=True)
    assert nlp("Ann met Bob")._.elmo.layers.shape[1] == 3


def test_registering_twice_is_the_same(nlp):
    before = Doc.get_extension(EXTENSION)
    register_extension()
    assert Doc.get_extension(EXTENSION) == before
