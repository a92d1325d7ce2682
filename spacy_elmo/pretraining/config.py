"""A pretraining config -> what it describes, resolved by spaCy's registry."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

import torch
from confection import Config
from spacy.util import registry

from ..bilm.config import BiLMConfig
from ..bilm.errors import BiLMError
from .corpus import Corpus
from .errors import PretrainingError
from .optimizers import Optimization
from .settings import Settings

SECTIONS = ("paths", "system", "corpora", "bilm", "pretraining")
BLOCKS = ("vocabulary", "optimizer", "logger")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class System:
    """The section [system].

    seed (int): Of the weights, the order of the text, dropout and the sampler.
    threads (int): Of PyTorch on the CPU; 0: as PyTorch finds them.
    device (str): "cpu", "cuda", "cuda:1", or "auto": a GPU where there is one.
    precision (str): Of matrix products: "float32", or "bfloat16" (mixed precision by
        torch.autocast; on CPUs it pays where they have AVX512-BF16 or AMX).
    """

    seed: int = 0
    threads: int = 0
    device: str = "auto"
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise PretrainingError(
                f"system.precision is {self.precision!r}, expected one of {', '.join(PRECISIONS)}."
            )

    def torch_device(self) -> torch.device:
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            # Only a tensor shows whether the device is there.
            return torch.empty(0, device=name).device
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise PretrainingError(
                f"system.device is {self.device!r}, which PyTorch cannot use here ({reason}): set it "
                'to "cpu" or "auto".'
            ) from None


@dataclass(frozen=True, kw_only=True)
class VocabularySettings:
    """The block [pretraining.vocabulary].

    min_count (int): Occurrences of a word in the training text at least.
    max_size (int): Words at most, `<S>`, `</S>` and `<UNK>` included.
    """

    min_count: int = 1
    max_size: int = 50_000


@dataclass(frozen=True)
class Run:
    """All that a config says."""

    system: System
    train: Corpus
    dev: Corpus
    bilm: BiLMConfig | None
    vocabulary: VocabularySettings
    settings: Settings
    optimization: Optimization
    logger: Any


def resolve(config: Config) -> Run:
    """Raises PretrainingError, or confection's ConfigValidationError, that name section and key."""
    _check_keys("the config", config, required=SECTIONS)
    values = config.interpolate()
    _check_keys("[corpora]", values["corpora"], required=("train", "dev"))
    for name in ("train", "dev"):
        if not values["corpora"][name].get("paths"):
            raise PretrainingError(
                f"corpora.{name}.paths is not set: name the text on the command line, "
                f"--paths.{'raw_text' if name == 'train' else 'dev_text'} 'corpus/*.txt.xz'."
            )
    _check_blocks(values["pretraining"])
    resolved = registry.resolve(values)
    corpora, pretraining = resolved["corpora"], dict(resolved["pretraining"])
    blocks = {name: pretraining.pop(name) for name in BLOCKS}
    return Run(
        system=_make(System, "system", resolved["system"]),
        train=_typed(Corpus, "corpora.train", corpora["train"]),
        dev=_typed(Corpus, "corpora.dev", corpora["dev"]),
        bilm=_bilm(resolved["bilm"]),
        vocabulary=_make(VocabularySettings, "pretraining.vocabulary", blocks["vocabulary"]),
        settings=_make(Settings, "pretraining", pretraining),
        optimization=_typed(Optimization, "pretraining.optimizer", blocks["optimizer"]),
        logger=blocks["logger"],
    )


def _bilm(values: Mapping[str, Any]) -> BiLMConfig | None:
    if not values:
        return None
    try:
        return BiLMConfig.from_dict(values, "the section [bilm]")
    except BiLMError as error:
        raise PretrainingError(str(error)) from None


def _check_keys(where: str, values: Mapping[str, Any], *, required: tuple[str, ...]) -> None:
    for name in required:
        if name not in values:
            raise PretrainingError(f"{where} lacks {name!r}, expected {', '.join(required)}.")
    if unknown := sorted(set(values) - set(required)):
        raise PretrainingError(
            f"{where} has the unknown key {unknown[0]!r}, expected only {', '.join(required)}."
        )


def _check_blocks(values: Mapping[str, Any]) -> None:
    for name in BLOCKS:
        if not isinstance(values.get(name), dict):
            raise PretrainingError(f"The config lacks the section [pretraining.{name}].")


def _make(kind: type[Made], section: str, values: Mapping[str, Any]) -> Made:
    """A dataclass from a section. Raises PretrainingError that names an unknown or wrong key."""
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name, value in values.items():
        if name not in known:
            raise PretrainingError(
                f"{section} has the unknown key {name!r}, expected only {', '.join(sorted(known))}."
            )
        expected = known[name].type
        accepted = (int, float) if expected is float else expected
        if not isinstance(value, accepted) or isinstance(value, bool):  # type: ignore[arg-type]
            raise PretrainingError(
                f"{section}.{name} is {value!r}, expected {getattr(expected, '__name__', expected)}."
            )
    for name, field in known.items():
        if name not in values and field.default is MISSING:
            raise PretrainingError(f"{section} lacks {name}.")
    return kind(**values)


def _typed(kind: type[Made], section: str, value: object) -> Made:
    if not isinstance(value, kind):
        raise PretrainingError(
            f"{section} gave {type(value).__name__}, expected {kind.__name__}: name one of "
            "spacy-elmo's own functions there."
        )
    return value
