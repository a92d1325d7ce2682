"""What a biLM is, in words."""

import math

from .config import BiLMConfig
from .formats.source import Source
from .skeleton import shapes

UNSEEN = "names and shapes of the tensors, which are packed: they are when it is loaded"


def count_parameters(config: BiLMConfig) -> int:
    return sum(math.prod(shape) for shape in shapes(config).values())


def describe(source: Source, config: BiLMConfig) -> dict[str, str]:
    """Rows of a table for a reader, in order."""
    megabytes = sum(path.stat().st_size for path in source.files) / 1e6
    filters = " + ".join(f"{n} of width {width}" for width, n in config.filters)
    return {
        "Layout": source.layout,
        "Files": ", ".join(str(path) for path in source.files),
        "Size": f"{megabytes:.1f} MB",
        "Parameters": f"{count_parameters(config):,}",
        "Layers": f"{config.n_layers + 1} (the tokens and {config.n_layers} LSTM layers), "
        f"{config.width} wide",
        "Characters": _characters(config),
        "Char CNN": f"{config.n_filters} filters ({filters}), {config.activation}",
        "Highway layers": str(config.n_highway),
        "Token projection": f"{config.n_features} -> {config.projection_dim}"
        if config.projects_characters
        else "none",
        "LSTM": f"{config.cell_dim} cells, projected to {config.projection_dim}"
        if config.projects_cells
        else f"{config.cell_dim} cells, no projection",
        "Clipping": f"cells {_clip(config.cell_clip)}, projection {_clip(config.projection_clip)}",
        "Skip connections": "yes" if config.skip_connections else "no",
        "Output layer": "kept" if source.read_output else "none",
        "Token vectors": "of a vocabulary" if source.read_token_cache else "none",
        **({} if source.complete else {"Not checked": UNSEEN}),
    }


def _characters(config: BiLMConfig) -> str:
    lexicon = config.lexicon
    kind = "UTF-8 bytes" if lexicon is None else "Unicode characters"
    text = (
        f"{config.n_characters} ids of width {config.char_dim}; a word is at most "
        f"{config.max_characters - 2} {kind} and two boundaries"
    )
    if lexicon is not None and lexicon.words:
        text += f"; {len(lexicon.words):,} words have vectors of their own, {lexicon.word_dim} wide"
    return text


def _clip(bound: float | None) -> str:
    return "not clipped" if bound is None else f"clipped at +-{bound:g}"
