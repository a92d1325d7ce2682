"""`python -m spacy elmo ...`: found by spaCy through the `spacy_cli` entry point.

Every call of `python -m spacy` imports this, so the commands import what they need when they run.
"""

import typer
from spacy.cli._util import app

elmo_cli = typer.Typer(
    name="elmo",
    help="Commands of spacy-elmo: make configs for ELMo pipelines, fetch, convert and look at biLMs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(elmo_cli)

from . import convert, download, info, init_config  # noqa: E402, F401  (they add their commands)
