"""Workers use one thread and do not hang."""

import multiprocessing

import numpy as np
import pytest
import torch

from spacy_elmo import Embedder

SENTENCES = [["One", "sentence", "."], ["Another"]]


def embed_in_worker(bilm, queue):
    torch.set_num_threads(2)
    layers = Embedder(bilm)(SENTENCES)
    queue.put((torch.get_num_threads(), layers))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_worker_uses_one_thread(bilm, start):
    context = multiprocessing.get_context(start)
    queue = context.Queue()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        expected = Embedder(bilm)(SENTENCES)
        worker = context.Process(target=embed_in_worker, args=(bilm, queue))
        worker.start()
        used, layers = queue.get(timeout=60)
        worker.join(timeout=60)
        assert used == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    for mine, its in zip(expected, layers, strict=True):
        np.testing.assert_allclose(its, mine, rtol=0, atol=1e-5)
