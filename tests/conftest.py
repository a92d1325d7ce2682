"""What several tests use: the reference fixtures where they are, and small biLMs of random weights."""

from pathlib import Path

import pytest
import spacy
import torch
from spacy.language import Language

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.formats import hdf5, native
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.packed_tokens import PackedTokenEncoder

# The biLMs here are tiny: a second thread gains nothing, and on a busy machine waits for its turn.
torch.set_num_threads(1)

SHARED = Path(__file__).parents[2] / "shared"

SMALL = BiLMConfig(
    char_dim=4,
    filters=((1, 4), (2, 8), (3, 8)),
    n_highway=1,
    projection_dim=8,
    cell_dim=16,
    n_layers=2,
    cell_clip=3.0,
    projection_clip=3.0,
    skip_connections=True,
)


def random_bilm(config: BiLMConfig = SMALL, seed: int = 0) -> BiLM:
    """Weights large enough that layers differ and clipping takes place."""
    with torch.random.fork_rng():
        bilm = BiLM(config)
        torch.manual_seed(seed)
        for parameter in bilm.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return bilm.eval()


class Trap:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple:
        return Path.touch, (self.trace,)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference fixtures and corpora beside the repository."""
    if not SHARED.is_dir():
        pytest.skip("../shared, with the reference fixtures and corpora, is not here")
    return SHARED


@pytest.fixture(scope="session")
def reference(shared: Path) -> Path:
    """The reference implementation's test model and its embeddings."""
    return shared / "fixtures" / "bilm"


@pytest.fixture(scope="session")
def bilm() -> BiLM:
    return random_bilm()


@pytest.fixture(scope="session")
def bilm_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small biLM of random weights in this package's layout."""
    place = tmp_path_factory.mktemp("native")
    native.write(SMALL, random_bilm().state_dict(), place)
    return place


@pytest.fixture(scope="session")
def hdf5_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same biLM in the published layout."""
    place = tmp_path_factory.mktemp("hdf5")
    hdf5.write(SMALL, random_bilm().state_dict(), place / "options.json", place / "weights.hdf5")
    return place


@pytest.fixture(scope="module")
def nlp(bilm_dir: Path) -> Language:
    """English, with the component `elmo` of a small biLM."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"name": str(bilm_dir)}})
    return nlp


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many words the char CNN is given, a number for each time."""
    counts: list[int] = []
    encode = PackedTokenEncoder.__call__

    def spy(self: PackedTokenEncoder, char_ids: torch.Tensor) -> torch.Tensor:
        counts.append(len(char_ids))
        return encode(self, char_ids)

    monkeypatch.setattr(PackedTokenEncoder, "__call__", spy)
    return counts
