"""`python -m spacy elmo info`."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from . import elmo_cli


@elmo_cli.command("info")
def info_cli(
    model: str = Arg(
        ...,
        help="A biLM's name, or the path of one: directory, archive, weights, or "
        "options.json,weights.hdf5",
    ),
    options: Path | None = Opt(
        None, "--options", help="The options.json of HDF5 weights, where it is not beside them"
    ),
) -> None:
    """Tell what a biLM is: its layout, sizes, parameters and characters; or why it cannot be read.

    Only headers are read: every tensor's name and shape is checked, none is loaded. (In an archive those
    of HDF5 and .pkl files are not, only their size; outside, a .pkl of the older kind is read whole.)
    """
    from ..bilm.description import describe
    from ..bilm.errors import BiLMError
    from ..bilm.loading import find

    try:
        source = find(model, options=options)
        rows = describe(source, source.inspect())
    except BiLMError as error:
        msg.fail(f"'{model}' is refused", str(error), exits=1)
    msg.good(f"'{model}' is a biLM" + (" that loads" if source.complete else ""))
    msg.table(rows)
