"""Workers of spaCy use one thread; other processes what their users set, where that does not hang."""

import multiprocessing
import os
import warnings

import numpy as np
import pytest
import torch
from spacy.language import _apply_pipes

from spacy_elmo import Embedder
from spacy_elmo.bilm import threads

SENTENCES = [["One", "sentence", "."], ["Another"]]


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    for name in threads.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    yield
    torch.set_num_threads(before)


def embed_in_process(bilm, queue, target=None):
    if target is not None:
        multiprocessing.current_process()._target = target
    torch.set_num_threads(2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        layers = Embedder(bilm)(SENTENCES)
        Embedder(bilm)(SENTENCES)
    queue.put((torch.get_num_threads(), [str(w.message) for w in said], layers))


def run(start, *args):
    context = multiprocessing.get_context(start)
    queue = context.Queue()
    process = context.Process(target=embed_in_process, args=(args[0], queue, *args[1:]))
    process.start()
    found = queue.get(timeout=60)
    process.join(timeout=60)
    return found


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_worker_of_spacys_uses_one_thread(bilm, start):
    expected = Embedder(bilm)(SENTENCES)
    used, said, layers = run(start, bilm, _apply_pipes)
    assert (used, said) == (1, [])
    assert torch.get_num_threads() == 2
    for mine, its in zip(expected, layers, strict=True):
        np.testing.assert_allclose(its, mine, rtol=0, atol=1e-5)


def test_unless_the_user_has_set_their_number(bilm, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert run("spawn", bilm, _apply_pipes)[:2] == (2, [])


def test_a_process_of_the_users_own_keeps_its_threads(bilm):
    assert run("spawn", bilm)[:2] == (2, [])


def test_a_forked_process_is_told_of_its_one_thread_once(bilm):
    """OpenMP's pool, which the parent has used, would make it hang."""
    Embedder(bilm)(SENTENCES)
    used, said, _ = run("fork", bilm)
    assert used == 1
    (message,) = said
    assert "with 2 threads, expected 1: now it has 1; start processes by 'spawn'" in message


def test_this_process_keeps_its_threads(bilm, monkeypatch):
    """Also one that torchrun has started: it is nobody's worker."""
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert os.getpid() == threads._IMPORTED_BY
    Embedder(bilm)(SENTENCES)
    assert torch.get_num_threads() == 2
