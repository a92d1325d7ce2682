"""Neighbours as one HTML page, the word highlighted; it refers to no other file."""

from collections.abc import Sequence
from html import escape

from .neighbours import Use, WordNeighbours

PAGE = """<!DOCTYPE html>
<html lang="{lang}">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h2 {{ border-bottom: 2px solid #000; }}
mark {{ background: #ffe8a3; font-weight: bold; padding: 0 .15em; }}
.use {{ font-weight: 500; margin: 1.4em 0 .3em; }}
td {{ vertical-align: top; padding: .1em .7em .1em 0; }}
td:first-child {{ color: #555; font-variant-numeric: tabular-nums; }}
footer {{ color: #555; margin-top: 2rem; border-top: 1px solid #bbb; font-size: .9em; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
<footer>{note}</footer>
</body>
</html>
"""


def to_html(found: Sequence[WordNeighbours], *, title: str, note: str, lang: str = "en") -> str:
    """title, note: Plain text; note stands below, such as the model and the text."""
    body = "\n".join(_word(each) for each in found)
    return PAGE.format(lang=escape(lang), title=escape(title), note=escape(note), body=body)


def _word(found: WordNeighbours) -> str:
    types = [
        f"<tr><td>{cosine:.3f}</td><td>{escape(word)}</td></tr>" for word, cosine in found.types
    ]
    parts = [f"<h2>{escape(found.word)}</h2>", "<h3>Nearest types, static</h3>"]
    parts.append(f"<table>{''.join(types)}</table>" if types else "<p>none</p>")
    parts.append("<h3>Nearest uses, in context</h3>")
    for use in found.uses:
        parts.append(f'<p class="use">{highlight(use.use)}</p>')
        rows = [
            f"<tr><td>{near.cosine:.3f}</td><td>{highlight(near.use)}</td></tr>"
            for near in use.neighbours
        ]
        parts.append(f"<table>{''.join(rows)}</table>")
    return "\n".join(parts)


def highlight(use: Use) -> str:
    before, word, after = use.text[: use.start], use.word, use.text[use.end :]
    return f"{escape(before)}<mark>{escape(word)}</mark>{escape(after)}"
