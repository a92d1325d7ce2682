"""The kernel can be lifted out: it needs neither spaCy nor Thinc."""

import pkgutil
import subprocess
import sys

import spacy_elmo.bilm

MODULES = [
    module.name
    for module in pkgutil.walk_packages(spacy_elmo.bilm.__path__, f"{spacy_elmo.bilm.__name__}.")
]


def test_the_kernel_imports_neither_spacy_nor_thinc():
    assert "spacy_elmo.bilm.formats.hdf5" in MODULES
    code = f"import sys, {', '.join(MODULES)}; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    imported = {name.split(".")[0] for name in process.stdout.split()}
    assert "torch" in imported
    assert not imported & {"spacy", "thinc"}


def test_the_package_itself_imports_no_torch():
    """spaCy imports it for its entry points, whatever pipeline is loaded."""
    code = "import sys, spacy_elmo; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert "spacy_elmo" in process.stdout.split()
    assert "torch" not in process.stdout.split()
