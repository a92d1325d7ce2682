"""`python -m spacy elmo init-config`."""

from enum import Enum
from pathlib import Path

from spacy.cli._util import Opt
from wasabi import msg

from . import elmo_cli


class Placement(str, Enum):
    input = "input"
    output = "output"
    both = "both"
    shared = "shared"


class Optimize(str, Enum):
    efficiency = "efficiency"
    accuracy = "accuracy"


@elmo_cli.command("init-config")
def init_config_cli(
    output_file: Path = Opt(
        ..., "--output", "-o", help="File to write the config to, or - for stdout", allow_dash=True
    ),
    lang: str = Opt("en", "--lang", "-l", help="Two-letter code of the language"),
    pipeline: str = Opt(
        "tagger,parser,ner",
        "--pipeline",
        "-p",
        help="Comma-separated names of the trainable components (without 'elmo')",
    ),
    model: str = Opt("en_elmo_sm", "--model", "-m", help="A biLM's name, or the path of one"),
    placement: Placement = Opt(
        Placement.both,
        "--placement",
        help="Where ELMo joins each component's own vectors: before its encoder, after it, or both; or "
        "before the encoder of one tok2vec shared by all, which is faster, with one mix for all",
    ),
    optimize: Optimize = Opt(
        Optimize.efficiency,
        "--optimize",
        help="As of 'spacy init config': a smaller and faster, or a larger task model",
    ),
    force: bool = Opt(False, "--force", "-F", help="Overwrite the output file"),
) -> None:
    """Write a config that trains a pipeline on ELMo features.

    The result is complete: python -m spacy train CONFIG --paths.train TRAIN --paths.dev DEV
    The biLM stands as 'bilm' in [paths]; to train with another one, add --paths.bilm PATH.
    """
    from ..bilm.errors import BiLMError
    from ..bilm.loading import find
    from ..training_config import elmo_config

    to_stdout = str(output_file) == "-"
    if not to_stdout and output_file.exists() and not force:
        msg.fail(f"{output_file} exists: give another name, or --force to overwrite it", exits=1)
    components = [name.strip() for name in pipeline.split(",") if name.strip()]
    try:
        find(model).inspect()
        config, left_out = elmo_config(lang, components, model, placement.value, optimize.value)
    except (BiLMError, ValueError) as error:
        msg.fail(str(error), exits=1)
    if to_stdout:
        print(config.to_str())
        return
    try:
        output_file.parent.mkdir(parents=True, exist_ok=True)
        config.to_disk(output_file)
    except OSError as error:
        reason = f"{output_file} cannot be written ({error.strerror}), expected the path of a file"
        msg.fail(f"{reason}: give another one", exits=1)
    for name in left_out:
        msg.warn(f"'{name}' has no tok2vec in this config and gets no ELMo")
    msg.good(f"Wrote {output_file}")
    msg.text(f"python -m spacy train {output_file} --paths.train train.spacy --paths.dev dev.spacy")
