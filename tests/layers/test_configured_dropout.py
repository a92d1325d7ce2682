"""Dropout at its own rate."""

import numpy as np
import pytest
from thinc.api import Model, set_dropout_rate

from spacy_elmo.layers.configured_dropout import configured_dropout

ONES = [np.ones((400, 50), dtype="float32"), np.ones((0, 50), dtype="float32")]


def test_prediction_is_the_identity():
    model = configured_dropout(0.5)
    assert model.predict(ONES)[0] is ONES[0]


def test_rate_zero_is_the_identity_in_training():
    outputs, backprop = configured_dropout(0.0)(ONES, is_train=True)
    assert outputs[0] is ONES[0] and backprop(ONES)[0] is ONES[0]


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
def test_the_expected_value_is_kept(rate):
    outputs, _ = configured_dropout(rate)(ONES, is_train=True)
    assert (outputs[0] == 0).mean() == pytest.approx(rate, abs=0.02)
    assert outputs[0].mean() == pytest.approx(1.0, abs=0.1)
    assert outputs[0].dtype == np.float32
    assert outputs[1].shape == (0, 50)


def test_backprop_uses_the_mask_of_its_own_forward():
    model = configured_dropout(0.5)
    outputs, backprop = model(ONES, is_train=True)
    others, _ = model(ONES, is_train=True)
    np.testing.assert_array_equal(backprop(ONES)[0], outputs[0])
    assert (others[0] != outputs[0]).any()


def test_spacys_training_dropout_does_not_change_it():
    model = configured_dropout(0.5)
    set_dropout_rate(model, 0.0)
    outputs, _ = model(ONES, is_train=True)
    assert (outputs[0] == 0).any()


def test_the_rate_is_stored():
    again = Model("configured_dropout", None, attrs={"rate": 0.1})
    assert again.from_bytes(configured_dropout(0.7).to_bytes()).attrs["rate"] == 0.7


@pytest.mark.parametrize("rate", [1.0, -0.1, 2])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match=rf"dropout is {rate}, expected at least 0 and below 1"):
        configured_dropout(rate)
