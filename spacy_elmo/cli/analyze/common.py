"""What the analysis commands share: their arguments, their failures, tables and files."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.cli._util import Arg, Opt
from wasabi import msg

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

PIPELINE = Arg(
    ..., help="A spaCy pipeline with 'elmo' or 'transformer'; or a biLM, or a transformer's folder"
)
COMPONENT = Opt(
    None, "--component", help="Component whose layers are read (the first that has some)"
)
LANG = Opt(
    "en", "--lang", "-l", help="Language of the tokenizer, where PIPELINE is no spaCy pipeline"
)
SEED = Opt(0, "--seed", help="Of all that is drawn at random")


@contextmanager
def failures() -> Iterator[None]:
    """What is expected to go wrong ends the command with one sentence."""
    try:
        yield
    except (ValueError, ImportError, OSError) as error:
        msg.fail(str(error), exits=1)


def counted(docs: Iterable["Doc"], what: str, total: int | None = None) -> Iterator["Doc"]:
    """Docs, with a progress bar on stderr."""
    from tqdm import tqdm

    with tqdm(desc=what, total=total, unit=" docs", dynamic_ncols=True) as bar:
        n_tokens = 0
        for doc in docs:
            yield doc
            n_tokens += len(doc)
            bar.set_postfix_str(f"{n_tokens:,} tokens", refresh=False)
            bar.update()


def progress(what: str, unit: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Wraps anything that is iterated over in a progress bar on stderr."""

    def watch(items: Iterable[Any]) -> Iterator[Any]:
        from tqdm import tqdm

        yield from tqdm(items, desc=what, unit=unit, dynamic_ncols=True)

    return watch


def open_pipeline(name: str, lang: str) -> "Language":
    from ...analysis.pipelines import load_pipeline

    return load_pipeline(name, lang)


def show_table(rows: Iterable[Sequence[Any]], header: Sequence[str]) -> None:
    """A table with numbers to the right."""
    texts = [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in rows]
    first_is_text = bool(texts) and not texts[0][0].lstrip("-").replace(".", "").isdigit()
    aligns = ["l" if i == 0 and first_is_text else "r" for i in range(len(header))]
    msg.table(texts, header=header, divider=True, aligns=aligns, max_col=60)


def number(value: float | None) -> str:
    if value is None or value != value:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def write_json(path: Path, content: Any) -> None:
    """Standard JSON: NaN becomes null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(_plain(content), indent=2, ensure_ascii=False) + "\n", encoding="utf8"
    )


def write_csv(path: Path, rows: Iterable[Sequence[Any]], header: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and value != value else value
