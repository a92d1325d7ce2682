"""Every way to a product gives the product."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from largest_tensor import LargestTensor

from spacy_elmo.bilm import products
from spacy_elmo.bilm.products import (
    ROWS_BEFORE_PACKING,
    Int8Product,
    OneDnnProduct,
    TorchProduct,
    pack,
)

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


@needs_onednn
@pytest.mark.parametrize("faster", [False, True])
@pytest.mark.parametrize("doubled", [0, 1, 7])
@settings(deadline=None, max_examples=10)
@given(inputs=SIZES, rows=st.integers(0, 70), has_bias=st.booleans(), adds=st.booleans())
def test_a_product_stays_the_product_when_it_is_packed(
    faster, doubled, inputs, rows, has_bias, adds
):
    weight, bias, x, add = operands(9, inputs, rows)
    held = weight.clone()
    expected = x.double() @ weight.double().t() + (bias if has_bias else 0)
    expected[:, 9 - doubled :] *= 2
    expected += add if adds else 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "onednn_is_faster", lambda: faster)
        product = pack(weight, bias if has_bias else None, "float32", doubled=doubled)
        for _ in range(12):
            found = product(x, add if adds else None)
            torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
        assert (product._packed is not None) == (faster and 12 * rows > ROWS_BEFORE_PACKING)
    assert torch.equal(weight, held)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("float32", torch.float32),
        ("float32", torch.float64),
        ("bfloat16", torch.float32),
        ("int8", torch.float32),
    ],
)
def test_the_last_outputs_are_doubled_in_every_precision(precision, dtype):
    if precision == "int8" and not products.has_int8():
        pytest.skip("PyTorch has no int8 here")
    weight, bias, x, _ = (operand.to(dtype) for operand in operands(9, 20, 10))
    plain, doubled = (pack(weight, bias, precision, doubled=n)(x) for n in (0, 4))
    bound = {"float32": 1e-5, "bfloat16": 0.2, "int8": 0.2}[precision]
    torch.testing.assert_close(doubled[:, :5], plain[:, :5], rtol=0, atol=bound)
    torch.testing.assert_close(doubled[:, 5:], 2 * plain[:, 5:], rtol=0, atol=2 * bound)


@needs_onednn
def test_a_weight_is_not_copied_for_a_few_rows():
    """The first vectors come without a second copy of the biLM."""
    weight, x = torch.randn(300, 200), torch.randn(1, 200)
    with LargestTensor() as few:
        product = pack(weight, torch.zeros(300), "float32", doubled=75)
        product(x, torch.zeros(1, 300))
    assert few.elements <= 300
    with LargestTensor() as many:
        product(x.expand(ROWS_BEFORE_PACKING, -1))
    assert not products.onednn_is_faster() or many.elements >= weight.numel()


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
