"""What setup.cfg declares is there, and importing it brings no torch."""

import configparser
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import spacy
from spacy import registry

SETUP = Path(__file__).parents[2] / "setup.cfg"
REGISTRIES = {
    "spacy_architectures": "architectures",
    "spacy_misc": "misc",
    "spacy_readers": "readers",
    "spacy_loggers": "loggers",
    "thinc_layers": "layers",
    "thinc_optimizers": "optimizers",
}


def declared():
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str
    parser.read(SETUP, encoding="utf8")
    section = parser["options.entry_points"]
    return [
        (group, *(part.strip() for part in line.split("=")))
        for group, lines in section.items()
        for line in lines.strip().splitlines()
    ]


DECLARED = declared()


def test_all_groups_are_declared():
    groups = {group for group, _, _ in DECLARED}
    assert groups == {*REGISTRIES, "spacy_factories", "spacy_cli"}


@pytest.mark.parametrize(("group", "name", "target"), DECLARED)
def test_it_is_installed_and_resolves(group, name, target):
    """If this fails after a change of setup.cfg, install the package again."""
    (point,) = entry_points(group=group, name=name)
    assert point.value == target
    module, _, attribute = target.partition(":")
    found = point.load()
    assert found is getattr(import_module(module), attribute)
    if group in REGISTRIES:
        assert registry.get(REGISTRIES[group], name) is found


def test_the_factory_is_spacys():
    assert spacy.blank("en").has_factory("elmo")


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import spacy
from importlib.metadata import entry_points
nlp = spacy.blank("en")
assert nlp.has_factory("elmo")
for group, name in {declared!r}:
    (point,) = entry_points(group=group, name=name)
    assert callable(point.load()), point
assert nlp("It works without.")[0].text == "It"
assert "safetensors" not in sys.modules
import spacy_elmo
try:
    spacy_elmo.load_bilm
except ImportError:
    print("torch is asked for when it is needed")
"""


def test_all_of_it_loads_where_torch_does_not():
    program = WITHOUT_TORCH.format(declared=[(group, name) for group, name, _ in DECLARED])
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "torch is asked for when it is needed"


def test_public_names():
    import spacy_elmo

    for name in spacy_elmo.__all__:
        assert getattr(spacy_elmo, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Elmoo'"):
        _ = spacy_elmo.Elmoo
