"""Threads in worker processes, such as those of `nlp.pipe(n_process=2)`."""

import multiprocessing
import os

import torch

_IMPORTED_BY = os.getpid()


def limit_threads_of_worker() -> None:
    """In a worker use one thread: workers share the cores among themselves, and OpenMP's pool does not
    survive a fork, so that a forked worker which enters it hangs.
    """
    is_worker = os.getpid() != _IMPORTED_BY or multiprocessing.parent_process() is not None
    if is_worker and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
