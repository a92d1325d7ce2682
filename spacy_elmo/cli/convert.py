"""`python -m spacy elmo convert`."""

from enum import Enum
from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from . import elmo_cli


class Layout(str, Enum):
    native = "native"
    hdf5 = "hdf5"


@elmo_cli.command("convert")
def convert_cli(
    source: str = Arg(..., help="A biLM's name, or the path of one in any layout that is read"),
    target: Path = Arg(..., help="The directory to write"),
    to: Layout = Opt(
        Layout.native,
        "--to",
        help="native: config.json + weights.safetensors; hdf5: options.json + weights.hdf5, which "
        "bilm-tf and AllenNLP read",
    ),
    options: Path | None = Opt(
        None, "--options", help="The options.json of HDF5 weights, where it is not beside them"
    ),
    vocab: Path | None = Opt(
        None, "--vocab", help="The words of a checkpoint's output layer, one a line"
    ),
    force: bool = Opt(False, "--force", "-F", help="Overwrite files in the directory"),
) -> None:
    """Write a biLM in another layout, and check that it reads back bit for bit.

    The native layout loads fastest: it is mapped into memory, and shared by processes. A
    checkpoint's output layer is kept in it, so that fine-tuning can go on where training stopped.
    """
    from ..bilm.conversion import convert
    from ..bilm.errors import BiLMError
    from ..bilm.loading import find

    try:
        found = find(source, options=options)
        notes = convert(found, target, to.value, vocabulary=vocab, force=force)
    except BiLMError as error:
        msg.fail(f"'{source}' is not converted", str(error), exits=1)
    except OSError as error:
        msg.fail(f"'{target}' cannot be written", str(error), exits=1)
    for note in notes:
        msg.info(note)
    msg.good(f"Wrote {target}, which reads back bit for bit ({found.layout} -> {to.value})")
