"""`python -m spacy elmo analyze ...`: one file a command."""

import typer

from .. import elmo_cli

analyze_cli = typer.Typer(
    name="analyze",
    help="What the layers know: geometry, neighbours and probes of any pipeline with layers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
elmo_cli.add_typer(analyze_cli)

from . import geometry, neighbours, probe  # noqa: E402, F401  (they add their commands)
