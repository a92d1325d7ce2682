"""Each measure against a second, plainer implementation, and against what is known in closed form."""

from itertools import permutations

import numpy as np
import pytest

from spacy_elmo.analysis.geometry import explained_variance, intra_sentence, mean_cosine

RNG = np.random.default_rng(0)


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


@pytest.fixture(params=[(1, 2, 3), (3, 7, 5), (2, 40, 6), (4, 5, 20)], ids=str)
def vectors(request: pytest.FixtureRequest) -> np.ndarray:
    """Random vectors off the origin, (layers, n, width)."""
    return RNG.normal(size=request.param) + RNG.normal(size=(request.param[0], 1, request.param[2]))


def test_mean_cosine_is_that_of_all_pairs(vectors: np.ndarray) -> None:
    expected = [np.mean([cosine(x, y) for x, y in permutations(X, 2)]) for X in vectors]
    np.testing.assert_allclose(mean_cosine(vectors), expected)


def test_intra_sentence_is_cosine_with_the_mean(vectors: np.ndarray) -> None:
    expected = [np.mean([cosine(x, X.mean(axis=0)) for x in X]) for X in vectors]
    np.testing.assert_allclose(intra_sentence(vectors), expected)


def test_variance_is_that_of_singular_values(vectors: np.ndarray) -> None:
    for k, X in enumerate(vectors):
        _, values, directions = np.linalg.svd(X)
        along = X @ directions[0]
        assert explained_variance(vectors)[0][k] == pytest.approx(
            values[0] ** 2 / (values**2).sum()
        )
        assert explained_variance(vectors)[1][k] == pytest.approx(
            along.var() / X.var(axis=0).sum(), abs=1e-9
        )


def test_published_variance_is_that_of_truncated_svd(vectors: np.ndarray) -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    for k, X in enumerate(vectors):
        svd = decomposition.TruncatedSVD(1, algorithm="arpack", random_state=0).fit(X)
        found = explained_variance(vectors)[1][k]
        assert found == pytest.approx(svd.explained_variance_ratio_[0], abs=1e-6)


def test_identical_vectors() -> None:
    X = np.repeat(RNG.normal(size=(2, 1, 6)), 9, axis=1)
    np.testing.assert_allclose(mean_cosine(X), 1)
    np.testing.assert_allclose(intra_sentence(X), 1)
    variance, published = explained_variance(X)
    np.testing.assert_allclose(variance, 1)
    assert np.isnan(published).all()


def test_orthogonal_vectors() -> None:
    X = np.eye(8)[None]
    np.testing.assert_allclose(mean_cosine(X), 0, atol=1e-12)
    np.testing.assert_allclose(intra_sentence(X), 1 / np.sqrt(8))
    np.testing.assert_allclose(explained_variance(X)[0], 1 / 8)


def test_one_direction_and_noise() -> None:
    """n vectors d + noise, both of squared length 1: half of all variance lies along d, and a pair's
    cosine is 1/2.
    """
    n, width = 1200, 400
    noise = RNG.normal(size=(1, n, width)) / np.sqrt(width)
    noise[..., 0] = 0
    X = noise + np.eye(width)[0]
    np.testing.assert_allclose(mean_cosine(X), 0.5, atol=0.01)
    np.testing.assert_allclose(explained_variance(X)[0], 0.5, atol=0.01)
    np.testing.assert_allclose(explained_variance(X)[1], 0.0, atol=0.01)
    np.testing.assert_allclose(intra_sentence(X), np.sqrt(0.5), atol=0.01)


def test_opposite_vectors_have_cosine_minus_one() -> None:
    x = RNG.normal(size=5)
    np.testing.assert_allclose(mean_cosine(np.stack([x, -x])[None]), -1)


def test_scale_does_not_matter_to_cosines(vectors: np.ndarray) -> None:
    scale = RNG.uniform(0.1, 10, size=(*vectors.shape[:2], 1))
    np.testing.assert_allclose(mean_cosine(vectors * scale), mean_cosine(vectors))


def test_zero_vectors_are_finite() -> None:
    X = np.zeros((1, 3, 4))
    assert mean_cosine(X) == 0 and intra_sentence(X) == 0
    assert np.isnan(explained_variance(X)[0]).all()


def test_one_vector_has_no_pairs() -> None:
    with pytest.raises(ValueError, match="needs 2 vectors"):
        mean_cosine(np.ones((1, 1, 4)))
