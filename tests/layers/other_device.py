"""Arrays that numpy cannot read, as on a GPU: what touches them except through `ops.xp` fails."""

from typing import Any

import numpy as np
from thinc.api import NumpyOps


class Array:
    """As a cupy array: no implicit conversion, no arithmetic with numpy's arrays."""

    __array_ufunc__ = None

    def __init__(self, held: Any) -> None:
        self.held = np.asarray(held)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("implicit conversion to a numpy array")

    def __len__(self) -> int:
        return len(self.held)

    def __float__(self) -> float:
        return float(self.held)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.held, name)
        return wrap(found) if callable(found) else found

    def __getitem__(self, key: Any) -> "Array":
        return Array(self.held[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.held[key] = unwrap(value)

    def __iadd__(self, other: Any) -> "Array":
        self.held += unwrap(other)
        return self


def unwrap(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        raise TypeError("an array of numpy's between arrays of another device")
    return value.held if isinstance(value, Array) else value


def wrap(function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*map(unwrap, args), **{k: unwrap(v) for k, v in kwargs.items()})
        return Array(result) if isinstance(result, np.ndarray | np.generic) else result

    return call


def _operator(name: str) -> Any:
    return lambda self, *others: wrap(getattr(np.ndarray, name))(self, *others)


for _name in ("add", "sub", "mul", "truediv"):
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(Array, f"__r{_name}__", _operator(f"__r{_name}__"))
for _name in ("__pow__", "__neg__"):
    setattr(Array, _name, _operator(_name))


class Namespace:
    """The module of that device, as `cupy` is."""

    ndarray = Array

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        return wrap(found) if callable(found) and not isinstance(found, type) else found


class OtherOps(NumpyOps):
    name = "other"
    xp = Namespace()

    def asarray(self, data: Any, dtype: Any = None) -> Any:
        return data if isinstance(data, Array) else Array(np.asarray(data, dtype=dtype))
