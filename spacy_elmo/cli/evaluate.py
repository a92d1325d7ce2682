"""`python -m spacy elmo evaluate`: held-out perplexity of a biLM."""

import json
from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from . import elmo_cli


@elmo_cli.command("evaluate")
def evaluate_cli(
    model: str = Arg(
        ...,
        help="A biLM with its output layer: a directory that `spacy elmo pretrain` wrote, or a "
        "checkpoint of bilm-tf.",
    ),
    text: list[str] = Arg(
        ..., help="Held-out text (plain, .gz, .xz or .jsonl), or quoted patterns of such files."
    ),
    lang: str | None = Opt(
        None,
        "--lang",
        "-l",
        help="The text is not tokenised: use the tokenizer and sentencizer of this language. "
        "Default: one sentence a line, its tokens separated by spaces.",
    ),
    reset: str = Opt(
        "document",
        "--reset",
        "-r",
        help="Where the LSTMs start from zero: at each 'document', or at each 'sentence', as the "
        "component reads by default.",
    ),
    output: Path | None = Opt(
        None, "--output", "-o", help="Also write the numbers to this JSON file."
    ),
    threads: int = Opt(
        0, "--threads", "-t", help="Of PyTorch on the CPU; 0: as PyTorch finds them."
    ),
) -> None:
    """Report the perplexity of a biLM on held-out text: forward, backward and mean.

    By the full softmax over the model's vocabulary, with the rate of words out of it and the
    protocol in words.
    """
    import torch

    from ..bilm.errors import BiLMError
    from ..pretraining.checkpoint import read_language_model
    from ..pretraining.corpus import raw_text, tokenized_text
    from ..pretraining.errors import PretrainingError
    from ..pretraining.evaluation import RESETS, evaluate

    if reset not in RESETS:
        msg.fail(f"--reset is '{reset}', expected one of {', '.join(RESETS)}.", exits=1)
    if threads > 0:
        torch.set_num_threads(threads)
    try:
        language_model, vocabulary = read_language_model(model)
        corpus = raw_text(text, lang) if lang else tokenized_text(text)
        found = evaluate(language_model, corpus, vocabulary, reset=reset)
    except (BiLMError, PretrainingError) as error:
        msg.fail(str(error), exits=1)
    msg.table(
        [
            ("Forward", f"{found.forward:.2f}"),
            ("Backward", f"{found.backward:.2f}"),
            ("Mean", f"{found.mean:.2f}"),
            ("Out of vocabulary", f"{found.oov_rate:.2%}"),
        ],
        header=("Perplexity", ""),
        divider=True,
        aligns=("l", "r"),
    )
    msg.text(found.protocol)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        numbers = {**found.to_dict(), "oov_rate": found.oov_rate, "protocol": found.protocol}
        output.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf8")
