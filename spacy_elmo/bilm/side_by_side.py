"""Two computations at once, each with half of PyTorch's threads."""

import threading
from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")
Computation = Callable[[threading.Event], Result]


def one_after_the_other(
    first: Computation[Result], second: Computation[Result]
) -> tuple[Result, Result]:
    never = threading.Event()
    return first(never), second(never)


def side_by_side(first: Computation[Result], second: Computation[Result]) -> tuple[Result, Result]:
    """Both results. On a small product two threads wait for each other more than they gain, and two
    products do not. The event tells a computation that the other has failed or was interrupted.
    """
    threads, stop = torch.get_num_threads(), threading.Event()
    if threads < 2:
        return one_after_the_other(first, second)
    results: list[Result] = []
    errors: list[BaseException] = []

    def run_second() -> None:
        try:
            results.append(second(stop))
        except BaseException as error:
            errors.append(error)
            stop.set()

    # A new thread takes the number that was set last.
    torch.set_num_threads(threads // 2)
    try:
        thread = threading.Thread(target=run_second)
        thread.start()
        try:
            mine = first(stop)
            thread.join()
        except BaseException:
            stop.set()
            thread.join()
            raise
    finally:
        torch.set_num_threads(threads)
    if errors:
        raise errors[0]
    return mine, results[0]
