"""Every way to a product gives the product."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm import products
from spacy_elmo.bilm.products import Int8Product, OneDnnProduct, TorchProduct, pack

SIZES = st.integers(1, 70)
needs_onednn = pytest.mark.skipif(not products.has_onednn(), reason="PyTorch has no oneDNN here")


def operands(outputs: int, inputs: int, rows: int):
    generator = torch.Generator().manual_seed(outputs + 100 * inputs + 10_000 * rows)
    shapes = ((outputs, inputs), (outputs,), (rows, inputs), (rows, outputs))
    return [torch.randn(shape, generator=generator) for shape in shapes]


def packed(kind: str):
    return {
        "torch": lambda w, b: TorchProduct(w, b, torch.float32),
        "onednn": lambda w, b: OneDnnProduct(w, b, torch.float32),
        "torch bfloat16": lambda w, b: TorchProduct(w, b, torch.bfloat16),
        "onednn bfloat16": lambda w, b: OneDnnProduct(w, b, torch.bfloat16),
        "int8": Int8Product,
    }[kind]


KINDS = {"torch": 1e-6, "onednn": 1e-6, "torch bfloat16": 0.01, "onednn bfloat16": 0.01, "int8": 0}


@needs_onednn
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("kind", list(KINDS))
@settings(deadline=None, max_examples=15)
@given(outputs=SIZES, inputs=SIZES, rows=st.integers(0, 70))
def test_a_product_is_the_product(kind, has_bias, adds, outputs, inputs, rows):
    weight, bias, x, add = operands(outputs, inputs, rows)
    held = add.clone()
    product = packed(kind)(weight, bias if has_bias else None)(x, add if adds else None)
    w, xs = weight.double(), x.double()
    expected = xs @ w.t() + (bias if has_bias else 0) + (add if adds else 0)
    # Each term of a sum has an error, and what is added has one.
    bound = KINDS[kind] * (xs.abs() @ w.abs().t() + 1 + expected.abs()) + 1e-5
    if kind == "int8":
        # Half a step of 127 for each operand.
        half_x, half_w = (t.abs().amax(1, keepdim=True) / 254 for t in (xs, w))
        bound += half_x * w.abs().sum(1) + xs.abs().sum(1, keepdim=True) * half_w.t()
        bound += half_x * half_w.t() * inputs
    assert product.dtype == torch.float32 and product.shape == expected.shape
    assert ((product - expected).abs() <= bound).all()
    assert torch.equal(add, held)


def test_an_int8_row_does_not_depend_on_the_rows_beside_it():
    weight, _, x, _ = operands(30, 20, 10)
    x[3] *= 1000
    product = Int8Product(weight, None)
    assert torch.equal(product(x)[:3], product(x[:3]))


@pytest.mark.parametrize("faster", [False, True])
def test_float32_takes_the_faster_library(monkeypatch, faster):
    monkeypatch.setattr(products, "has_onednn", lambda: True)
    monkeypatch.setattr(products, "onednn_is_faster", lambda: faster)
    product = pack(torch.randn(4, 4), None, "float32")
    assert isinstance(product, OneDnnProduct if faster else TorchProduct)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_without_onednn_the_numbers_are_the_same(monkeypatch, precision):
    weight, bias, x, add = operands(30, 20, 10)
    first = pack(weight, bias, precision)(x, add)
    monkeypatch.setattr(products, "has_onednn", lambda: False)
    second = pack(weight, bias, precision)
    assert isinstance(second, TorchProduct)
    torch.testing.assert_close(
        second(x, add), first, rtol=0, atol=1e-5 if precision == "float32" else 0.1
    )


def test_int8_is_refused_where_pytorch_cannot(monkeypatch):
    monkeypatch.setattr(products, "has_int8", lambda: False)
    with pytest.raises(ValueError, match=r'precision = "int8" needs .*; use "float32"'):
        pack(torch.randn(4, 4), None, "int8")


def test_float64_stays_float64():
    product = pack(torch.randn(4, 4, dtype=torch.float64), None, "float32")
    assert product(torch.randn(2, 4, dtype=torch.float64)).dtype == torch.float64
