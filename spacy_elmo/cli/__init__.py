"""`python -m spacy elmo ...`: found by spaCy through the `spacy_cli` entry point.

Every call of `python -m spacy` imports this, so the commands import what they need when they run.
"""

import typer
from spacy.cli._util import app

elmo_cli = typer.Typer(
    name="elmo",
    help="Commands of spacy-elmo: configs for ELMo pipelines; fetch, convert, pretrain, analyse biLMs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(elmo_cli)

# They add their commands.
from . import (  # noqa: E402
    analyze,  # noqa: F401
    convert,  # noqa: F401
    download,  # noqa: F401
    evaluate,  # noqa: F401
    info,  # noqa: F401
    init_config,  # noqa: F401
    mix,  # noqa: F401
    pretrain,  # noqa: F401
)
