"""How much memory tensors take at once."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class PeakMemory(TorchDispatchMode):
    """Bytes of all tensors that live at once, with the arrays that share their memory."""

    peak = 0

    def __init__(self):
        super().__init__()
        self._live = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            # Packed weights have no storage of PyTorch's, nor do they follow the text.
            if isinstance(tensor, torch.Tensor) and not tensor.is_mkldnn:
                storage = tensor.untyped_storage()
                self._live[storage.data_ptr()] = (StorageWeakRef(storage), storage.nbytes())
        self._live = {k: held for k, held in self._live.items() if not held[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self._live.values()))
        return result
