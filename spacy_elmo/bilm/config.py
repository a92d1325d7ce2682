"""The sizes and switches of a biLM, and their published form, options.json."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from .characters import N_CHARACTERS, PADDING
from .errors import BiLMError
from .lexicon import Lexicon

ACTIVATIONS = ("relu", "tanh")
# Least values of the fields that are whole numbers; of the table of characters: for UTF-8 bytes.
AT_LEAST = {
    "char_dim": 1,
    "n_highway": 0,
    "projection_dim": 1,
    "cell_dim": 1,
    "n_layers": 1,
    "max_characters": 3,
    "n_characters": N_CHARACTERS,
}
# What each field is, as errors say it.
KINDS = {
    **{name: f"a whole number of at least {least}" for name, least in AT_LEAST.items()},
    "filters": "a list of pairs [width, number], whole numbers of at least 1",
    "activation": " or ".join(map(repr, ACTIVATIONS)),
    "cell_clip": "a number above 0, or null",
    "projection_clip": "a number above 0, or null",
    "skip_connections": "true or false",
    "always_project": "true or false",
}
REMEDY = "use the options.json that was published with these weights"
OUR_REMEDY = "use the config.json that was saved with these weights"


@dataclass(frozen=True, kw_only=True)
class BiLMConfig:
    """Sizes of a biLM (Peters et al. 2018, section 3.4).

    char_dim (int): Width of a character's embedding.
    filters (tuple[tuple[int, int], ...]): Of the char CNN: (width in characters, number).
    n_highway (int): Highway layers after the char CNN.
    projection_dim (int): Width of a token vector and of each direction's output.
    cell_dim (int): Cells of each LSTM layer.
    n_layers (int): LSTM layers of each direction; the biLM has one layer more, the tokens.
    max_characters (int): Bytes of a word, its two boundaries included.
    n_characters (int): Rows of the character table.
    activation (str): Of the char CNN, "relu" or "tanh".
    cell_clip, projection_clip (float | None): Bounds of the cells and of the output; None: no bound.
    skip_connections (bool): Add a layer's input to its output, from the second layer on.
    always_project (bool): Project where the widths agree too, which bilm-tf leaves out.
    lexicon (Lexicon | None): The Unicode characters and words that have vectors; None: UTF-8 bytes,
        and max_characters counts bytes.
    """

    char_dim: int
    filters: tuple[tuple[int, int], ...]
    n_highway: int
    projection_dim: int
    cell_dim: int
    n_layers: int
    max_characters: int = 50
    n_characters: int = N_CHARACTERS
    activation: str = "relu"
    cell_clip: float | None = None
    projection_clip: float | None = None
    skip_connections: bool = False
    always_project: bool = False
    lexicon: Lexicon | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        least = dict(AT_LEAST)
        if self.lexicon is not None:
            least["n_characters"] = len(self.lexicon.characters)
        for name, at_least in least.items():
            _check_int(name, getattr(self, name), at_least)
        for name in ("cell_clip", "projection_clip"):
            _check_clip(name, getattr(self, name))
        if self.projection_dim > self.cell_dim:
            raise BiLMError(
                f"projection_dim is {self.projection_dim}, expected at most the {self.cell_dim} cells."
            )
        _check_filters(self.filters, self.max_characters)
        if self.activation not in ACTIVATIONS:
            raise BiLMError(f"activation is {self.activation!r}, expected {KINDS['activation']}.")
        for name in ("skip_connections", "always_project"):
            if not isinstance(value := getattr(self, name), bool):
                raise BiLMError(f"{name} is {value!r}, expected {KINDS[name]}.")

    @property
    def padding(self) -> int:
        """The character id that fills a row."""
        return PADDING if self.lexicon is None else self.lexicon.padding

    @property
    def n_filters(self) -> int:
        return sum(n for _, n in self.filters)

    @property
    def width(self) -> int:
        """Of a layer's vector: both directions, concatenated."""
        return 2 * self.projection_dim

    @property
    def projects_characters(self) -> bool:
        """Whether a projection follows the char CNN (bilm-tf leaves it out where widths agree)."""
        return self.always_project or self.n_features != self.projection_dim

    @property
    def n_features(self) -> int:
        """Of a word, before the projection: its filters, and its own vector where it has one."""
        return self.n_filters + (self.lexicon.word_dim if self.lexicon else 0)

    @property
    def projects_cells(self) -> bool:
        """Whether the LSTM's output is projected (bilm-tf: where it is smaller than the cells)."""
        return self.always_project or self.projection_dim < self.cell_dim

    def to_dict(self) -> dict[str, Any]:
        """As JSON values. What a biLM of bytes does not have is left out."""
        values = asdict(self)
        for name in ("always_project", "lexicon"):
            if not values[name]:
                del values[name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str) -> "BiLMConfig":
        """Build from the output of to_dict, as read back from JSON; source names it in errors."""
        known = {field.name for field in fields(cls)}
        for each in fields(cls):
            if each.default is MISSING and each.name not in values:
                raise BiLMError(_missing(source, each.name, KINDS[each.name], values, OUR_REMEDY))
        if unknown := sorted(set(values) - known):
            raise BiLMError(
                f"{source} has the unknown key {unknown[0]!r}, expected only {sorted(known)}: "
                "it was written by another version of spacy-elmo, upgrade to read it."
            )
        return _build(dict(values), source, {}, OUR_REMEDY)

    @classmethod
    def from_options(cls, options: object, source: str) -> "BiLMConfig":
        """Build from the published options.json, already parsed; source names it in errors.

        Raises BiLMError where a field is missing or is not of its kind.
        """
        values: dict[str, Any] = {}
        for name, path in OPTION_PATHS.items():
            values[name] = _lookup(options, path, source)
        count = values["n_characters"]
        # Counted with the mask row that readers add, or without it where it is 261.
        if isinstance(count, int) and count > N_CHARACTERS:
            values["n_characters"] = count - 1
        names = {name: ".".join(path) for name, path in OPTION_PATHS.items()}
        return _build(values, source, names, REMEDY)

    def to_options(self) -> dict[str, Any]:
        """The published form; n_characters counts the mask row that readers add.

        Raises BiLMError for what the published form has no words for.
        """
        if self.lexicon is not None:
            raise BiLMError(
                f"A biLM that spells words in {len(self.lexicon.characters)} Unicode characters has "
                "no options.json, which knows UTF-8 bytes only: keep it in this package's layout."
            )
        if self.always_project and not (self.n_filters != self.projection_dim < self.cell_dim):
            raise BiLMError(
                "A biLM that projects where widths agree has no options.json, which means no "
                "projection by that: keep it in this package's layout."
            )
        options: dict[str, Any] = {"lstm": {}, "char_cnn": {"embedding": {}}}
        for name, path in OPTION_PATHS.items():
            place = options
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = getattr(self, name)
        options["char_cnn"]["filters"] = [list(pair) for pair in self.filters]
        options["char_cnn"]["n_characters"] = self.n_characters + 1
        return options


# Where each field stands in options.json.
OPTION_PATHS: dict[str, tuple[str, ...]] = {
    "char_dim": ("char_cnn", "embedding", "dim"),
    "filters": ("char_cnn", "filters"),
    "n_highway": ("char_cnn", "n_highway"),
    "projection_dim": ("lstm", "projection_dim"),
    "cell_dim": ("lstm", "dim"),
    "n_layers": ("lstm", "n_layers"),
    "max_characters": ("char_cnn", "max_characters_per_token"),
    "n_characters": ("char_cnn", "n_characters"),
    "activation": ("char_cnn", "activation"),
    "cell_clip": ("lstm", "cell_clip"),
    "projection_clip": ("lstm", "proj_clip"),
    "skip_connections": ("lstm", "use_skip_connections"),
}
# bilm-tf reads these with a default, so files without them are complete.
OPTIONAL: dict[str, Any] = {
    "n_highway": 0,
    "cell_clip": None,
    "projection_clip": None,
    "skip_connections": False,
}


def _lookup(options: object, path: tuple[str, ...], source: str) -> Any:
    name = next(field for field, place in OPTION_PATHS.items() if place == path)
    place = options
    for depth, key in enumerate(path):
        if not isinstance(place, Mapping):
            where = ".".join(path[:depth]) or "the file"
            raise BiLMError(f"{source}: {where} is {place!r}, expected an object: {REMEDY}.")
        if key not in place:
            last = depth == len(path) - 1
            if last and name in OPTIONAL:
                return OPTIONAL[name]
            kind = KINDS[name] if last else "an object"
            raise BiLMError(_missing(source, ".".join(path[: depth + 1]), kind, place, REMEDY))
        place = place[key]
    return place


def _missing(source: str, field: str, kind: str, found: Mapping[str, Any], remedy: str) -> str:
    names = ", ".join(sorted(found)) or "nothing"
    return f"{source} lacks the field '{field}', expected {kind}, found only {names}: {remedy}."


def _build(values: dict[str, Any], source: str, names: dict[str, str], remedy: str) -> BiLMConfig:
    """names: What the source calls a field, where it is not the field's own name."""
    if isinstance(values["filters"], list):
        pairs = values["filters"]
        values["filters"] = tuple(tuple(pair) if isinstance(pair, list) else pair for pair in pairs)
    try:
        if values.get("lexicon") is not None:
            values["lexicon"] = Lexicon.from_dict(values["lexicon"])
        return BiLMConfig(**values)
    except BiLMError as error:
        field, _, rest = str(error).removesuffix(".").partition(" ")
        raise BiLMError(f"{source}: {names.get(field, field)} {rest}: {remedy}.") from None


def _check_int(name: str, value: object, at_least: int) -> None:
    if not _is_whole(value, at_least):
        raise BiLMError(f"{name} is {value!r}, expected a whole number of at least {at_least}.")


def _is_whole(value: object, at_least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def _check_clip(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise BiLMError(f"{name} is {value!r}, expected {KINDS[name]}.")


def _check_filters(filters: object, max_characters: int) -> None:
    if not isinstance(filters, tuple) or not filters:
        found = [] if filters == () else filters
        raise BiLMError(f"filters is {found!r}, expected {KINDS['filters']}.")
    for pair in filters:
        shown = list(pair) if isinstance(pair, tuple) else pair
        if not isinstance(pair, tuple) or [_is_whole(n, 1) for n in pair] != [True, True]:
            raise BiLMError(f"filters has {shown!r}, expected {KINDS['filters']}.")
        if pair[0] > max_characters:
            raise BiLMError(
                f"filters has {shown!r}, expected a width of at most {max_characters} characters."
            )
