"""The processes that train one model together, as torchrun starts them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Ranks:
    """This process's number and how many there are; alone, every method is the identity."""

    rank: int = 0
    size: int = 1

    @classmethod
    @contextmanager
    def joined(cls) -> Iterator["Ranks"]:
        """The group that torchrun describes in the environment, if any, until the end of the block."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            yield cls()
            return
        backend = "gloo"
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            backend = "cpu:gloo,cuda:nccl"
        # The others wait while the first process counts the text or evaluates.
        dist.init_process_group(backend, timeout=timedelta(days=1))
        try:
            yield (ranks := cls(dist.get_rank(), size))
            # Who left earlier would break the connections that others still use.
            ranks.wait()
        finally:
            dist.destroy_process_group()

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def share(self, n: int) -> slice:
        """This process's part of n streams."""
        part = n // self.size
        return slice(self.rank * part, (self.rank + 1) * part)

    def average(self, tensor: Tensor) -> Tensor:
        """The mean over processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
            tensor /= self.size
        return tensor

    def average_gradients(self, parameters: list[torch.nn.Parameter]) -> None:
        """In one message. Every process has gradients for the same parameters."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        together = self.average(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = together.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Every process's tensor, all of one shape."""
        if self.size == 1:
            return [tensor]
        everyone = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(everyone, tensor.contiguous())
        return everyone

    def wait(self) -> None:
        """For all others."""
        if self.size > 1:
            dist.barrier()
