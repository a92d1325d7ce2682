"""`python -m spacy elmo analyze neighbours`."""

from pathlib import Path
from typing import TYPE_CHECKING

from spacy.cli._util import Arg, Opt
from wasabi import msg

from . import analyze_cli
from .common import COMPONENT, LANG, PIPELINE, SEED, counted, failures, open_pipeline, write_json

if TYPE_CHECKING:
    from ...analysis.neighbours import Use, WordNeighbours


@analyze_cli.command("neighbours")
def neighbours_cli(
    pipeline: str = PIPELINE,
    text: Path = Arg(
        ..., help="Text: .txt (a text a line), .jsonl, .conllu or .spacy; .gz, .bz2, .xz"
    ),
    words: list[str] = Opt(..., "--word", "-w", help="Word to look at; may be given several times"),
    layer: str = Opt(
        "top", "--layer", help="A layer's number, 'token', 'top', or 'mix', the average"
    ),
    output: Path | None = Opt(None, "--output", "-o", help="Folder for neighbours.json and .html"),
    k: int = Opt(5, "--neighbours", "-k", help="Neighbours of each use"),
    uses: int = Opt(5, "--uses", help="Most uses of a word shown, drawn at random"),
    same_word: bool = Opt(
        False, "--same-word", help="Let only uses of the same word be neighbours"
    ),
    vectors: str | None = Opt(
        None, "--vectors", help="Pipeline with static vectors for nearest types (the token layer's)"
    ),
    name: str | None = Opt(None, "--name", help="What results call the model"),
    component: str | None = COMPONENT,
    max_tokens: int | None = Opt(None, "--max-tokens", help="Read so many tokens of the text"),
    seed: int = SEED,
    lang: str = LANG,
) -> None:
    """Find the nearest uses of a word in its sentences, beside its nearest types in a static table
    (Peters et al. 2018, table 4).

    Every token of the text is a candidate, by cosine, exactly. Vectors take two bytes a number: a million
    tokens of width 1024 take 2 GB.
    """
    with failures():
        import spacy

        from ...analysis.corpus import read_docs
        from ...analysis.layers import layer_reader
        from ...analysis.neighbours import find_neighbours, to_rows
        from ...analysis.neighbours_html import to_html
        from ...extras import require

        require("faiss")
        nlp = open_pipeline(pipeline, lang)
        found = find_neighbours(
            layer_reader(nlp, component),
            counted(read_docs(text, nlp, max_tokens), "Embed"),
            words,
            layer=layer,
            k=k,
            uses=uses,
            same_word=same_word,
            seed=seed,
            static=spacy.load(vectors) if vectors else None,
        )
        for each in found:
            _show(each)
        if output is not None:
            called = name or Path(pipeline).name
            about = {"model": called, "text": str(text), "layer": layer, "seed": seed}
            write_json(output / "neighbours.json", {**about, "words": to_rows(found)})
            types = vectors or "token layer"
            note = f"Model: {called}, layer: {layer}; text: {text.name}; types: {types}"
            title = f"Neighbours of {', '.join(each.word for each in found)}"
            page = to_html(found, title=title, note=note, lang=nlp.lang or lang)
            (output / "neighbours.html").write_text(page, encoding="utf8")
            msg.good(f"Wrote neighbours.json and neighbours.html to {output}")


def _show(found: "WordNeighbours") -> None:
    msg.divider(found.word)
    types = ", ".join(f"{word} {cosine:.2f}" for word, cosine in found.types)
    msg.text(f"Nearest types (static): {types or 'none'}")
    for use in found.uses:
        print()
        print(_highlight(use.use))
        for near in use.neighbours:
            print(f"  {near.cosine:.3f}  {_highlight(near.use)}")


def _highlight(use: "Use") -> str:
    """The word in colour, and in brackets where there is none."""
    from wasabi.util import color, supports_ansi

    word = color(use.word, fg="green", bold=True) if supports_ansi() else f"[{use.word}]"
    return f"{use.text[: use.start]}{word}{use.text[use.end :]}"
