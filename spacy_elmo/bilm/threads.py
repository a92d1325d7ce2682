"""Threads in processes that were forked, and in the workers of `nlp.pipe(n_process=2)`."""

import multiprocessing
import os
import warnings

import torch

_IMPORTED_BY = os.getpid()
SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def limit_threads_of_worker() -> None:
    """One thread in spaCy's workers, which share the cores among themselves, unless the environment
    sets a number; and in any forked process, where OpenMP's pool does not survive: what enters it hangs.
    There a user who has not left it to spaCy is warned.
    """
    if torch.get_num_threads() == 1:
        return
    if _is_forked():
        if not _is_spacys():
            warnings.warn(
                f"This process was forked, where PyTorch hangs with {torch.get_num_threads()} threads, "
                "expected 1: now it has 1; start processes by 'spawn' to use more.",
                stacklevel=2,
            )
        torch.set_num_threads(1)
    elif _is_spacys() and not any(os.environ.get(name) for name in SETTINGS):
        torch.set_num_threads(1)


def _is_forked() -> bool:
    return os.getpid() != _IMPORTED_BY


def _is_spacys() -> bool:
    """A worker of spaCy's knows what it was started to run."""
    target = getattr(multiprocessing.current_process(), "_target", None)
    return getattr(target, "__module__", None) == "spacy.language"
