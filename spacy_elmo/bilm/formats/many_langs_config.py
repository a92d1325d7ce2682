"""Sizes and lexicons of ELMoForManyLangs: config.json, the file that it names, char.dic, word.dic.

Reference: `elmoformanylangs`, `Embedder.get_model`.
"""

from pathlib import Path, PureWindowsPath
from typing import Any

from ..config import BiLMConfig
from ..errors import BiLMError
from ..lexicon import Lexicon
from .files import read_json, read_text

CONFIG, CHARACTERS, WORDS = "config.json", "char.dic", "word.dic"
REMEDY = "use the files of one directory as ELMoForManyLangs published it"
# Sizes that come with the reference program, not with the models that were published for it.
PUBLISHED_SIZES = "cnn_50_100_512_4096_sample.json"
PUBLISHED: dict[str, Any] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}


def read_config(directory: Path) -> BiLMConfig:
    """Sizes and lexicons."""
    sizes, source = _read_sizes(directory)
    embedder, stack = _section(sizes, "token_embedder", source), _section(sizes, "encoder", source)
    for section, kind, name in ((embedder, "cnn", "token_embedder"), (stack, "elmo", "encoder")):
        if str(section.get("name")).lower() != kind:
            raise BiLMError(
                f"{source}: {name}.name is {section.get('name')!r}, expected {kind!r}, as in all "
                "models that were published: another kind of network cannot be read."
            )
    word_dim = embedder.get("word_dim", 0)
    try:
        lexicon = Lexicon(
            read_lexicon(directory / CHARACTERS),
            read_lexicon(directory / WORDS) if word_dim else (),
            word_dim,
        )
        return BiLMConfig(
            char_dim=embedder["char_dim"],
            filters=tuple(tuple(pair) for pair in embedder["filters"]),
            n_highway=embedder["n_highway"],
            projection_dim=stack["projection_dim"],
            cell_dim=stack["dim"],
            n_layers=stack["n_layers"],
            max_characters=embedder["max_characters_per_token"],
            n_characters=len(lexicon.characters),
            activation=embedder["activation"],
            # Zero, as None, means no bound.
            cell_clip=stack.get("cell_clip") or None,
            projection_clip=stack.get("proj_clip") or None,
            skip_connections=True,
            always_project=True,
            lexicon=lexicon,
        )
    except KeyError as error:
        raise BiLMError(f"{source} lacks the field {error}: {REMEDY}.") from None
    except TypeError as error:
        raise BiLMError(f"{source} does not describe a biLM ({error}): {REMEDY}.") from None
    except BiLMError as error:
        if str(directory) in str(error):
            raise
        raise BiLMError(
            f"{source}, {directory}: {str(error).removesuffix('.')}; {REMEDY}."
        ) from None


def read_lexicon(path: Path) -> tuple[str, ...]:
    """Entries in the order of their ids. A line is an entry, a tab, and its id."""
    entries: dict[int, str] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line:
            continue
        entry, _, id_ = line.rpartition("\t")
        if not id_.strip().isdecimal() or int(id_) in entries:
            raise BiLMError(
                f"{path}: line {number} is {line!r}, expected an entry, a tab and a number that "
                f"no other line has: {REMEDY}."
            )
        # Whatever wrote the file may have lost an ideographic space at the start of its line.
        entries[int(id_)] = entry or "\u3000"
    if entries and max(entries) >= len(entries):
        raise BiLMError(
            f"{path} has {len(entries)} entries and the id {max(entries)}, expected ids without "
            f"gaps: {REMEDY}."
        )
    return tuple(entries[i] for i in range(len(entries)))


def is_config(parsed: object) -> bool:
    """Whether a parsed config.json is of this layout."""
    return isinstance(parsed, dict) and "config_path" in parsed


def _read_sizes(directory: Path) -> tuple[dict[str, Any], Path]:
    """The file that config.json names, which may be where the model was trained, and its path."""
    config = directory / CONFIG
    parsed = read_json(config)
    given = parsed.get("config_path") if isinstance(parsed, dict) else None
    if not isinstance(given, str):
        raise BiLMError(f"{config}: config_path is {given!r}, expected a file's name: {REMEDY}.")
    # Only what lies in the directory is read, whatever the path says.
    path = directory / PureWindowsPath(given).name
    if path.is_file():
        sizes = read_json(path)
    elif path.name == PUBLISHED_SIZES:
        sizes = PUBLISHED
    else:
        raise BiLMError(
            f"{config} names the sizes '{given}', but {path} is not there: put the file beside it."
        )
    if not isinstance(sizes, dict):
        raise BiLMError(f"{path} is {sizes!r}, expected an object: {REMEDY}.")
    return sizes, path


def _section(sizes: dict[str, Any], name: str, source: Path) -> dict[str, Any]:
    section = sizes.get(name)
    if not isinstance(section, dict):
        raise BiLMError(f"{source}: {name} is {section!r}, expected an object: {REMEDY}.")
    return section
