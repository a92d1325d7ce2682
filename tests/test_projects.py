"""The project templates: spaCy takes them, and what their commands call exists."""

import shlex
from pathlib import Path

import pytest
import spacy.cli
import typer
from spacy import registry
from spacy.cli._util import app
from weasel.util import load_project_config

PROJECTS = sorted((Path(__file__).parents[1] / "projects").iterdir())


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_spacy_takes_it_and_its_commands_exist(project: Path) -> None:
    config = load_project_config(project)
    names = {command["name"] for command in config["commands"]}
    for steps in config["workflows"].values():
        assert set(steps) <= names
    for command in config["commands"]:
        for line in command["script"]:
            python, *arguments = shlex.split(line)
            assert python == "python"
            if arguments[0] == "-m":
                assert arguments[1] == "spacy"
                parse(arguments[2:])
            else:
                assert (project / arguments[0]).is_file(), arguments[0]


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_what_a_command_needs_an_earlier_one_has_made(project: Path) -> None:
    config = load_project_config(project)
    commands = {command["name"]: command for command in config["commands"]}
    made: set[str] = set()
    for name in config["workflows"]["all"]:
        for needed in commands[name].get("deps", []):
            assert needed in made or (project / needed).exists(), f"{name} needs {needed}"
        made.update(commands[name].get("outputs", []))


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_configs_overrides_are_of_that_config(project: Path) -> None:
    config = load_project_config(project)
    for command in config["commands"]:
        for line in command["script"]:
            _, *arguments = shlex.split(line)
            if arguments[1:4] == ["spacy", "elmo", "pretrain"]:
                settings = spacy.util.load_config(project / arguments[4])
                for option in arguments:
                    if option.startswith("--") and "." in option:
                        block = settings
                        for part in option[2:].split("."):
                            assert part in block, f"{option} is not in {arguments[4]}"
                            block = block[part]


def parse(arguments: list[str]) -> None:
    """Refuse a command or an option that does not exist."""
    registry.cli.get_all()  # commands of plugins, as spaCy adds them
    command = typer.main.get_command(app)
    context = typer.Context(command)
    while hasattr(command, "get_command"):
        found = command.get_command(context, arguments[0])
        assert found is not None, f"spacy has no command {arguments[0]}"
        command, arguments = found, arguments[1:]
        context = typer.Context(command, **command.context_settings)
    command.make_parser(context).parse_args(list(arguments))
