"""How much memory an operation asks for at once."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestTensor(TorchDispatchMode):
    """Elements of the largest tensor that any operation makes; a view of another is not made."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {_place(each) for each in tree_leaves(args)} - {None}
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and _place(tensor) not in given:
                self.elements = max(self.elements, tensor.numel())
        return result


def _place(value: object) -> int | None:
    """Of a tensor's memory, where it can be told: oneDNN's own layouts are not."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return value.untyped_storage().data_ptr() or None
