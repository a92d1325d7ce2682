"""The precisions that products with a biLM's weights can have. Imports no torch, as configs name them."""

from typing import Literal, get_args

Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS = get_args(Precision)
