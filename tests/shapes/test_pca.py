"""Principal components: directions of largest variance, and samples that cannot be used."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shapes.drawn_series import made, walks
from tidegate.errors import SettingError
from tidegate.shapes.normal_form import normals
from tidegate.shapes.transforms import FFT, PCA, Haar


@given(st.integers(3, 40), st.integers(1, 6), st.integers(0, 2**32))
def test_pca_begins_with_the_directions_of_largest_variance(n, components, seed):
    components = min(components, n - 1)
    forms, _ = normals(walks(np.random.default_rng(seed), 60, n))
    variances = np.sort(np.linalg.eigvalsh(np.cov(forms.T, bias=True)))[::-1]
    transform = PCA.fit(forms, components)
    found = transform.coordinates(forms)
    assert transform.components == components
    np.testing.assert_allclose(found.var(axis=0)[:components], variances[:components], rtol=1e-7, atol=1e-9)
    covariance = np.cov(found[:, :components].T, bias=True).reshape(components, components)
    np.testing.assert_allclose(covariance, np.diag(variances[:components]), atol=1e-8)
    # The others have nothing in common with them.
    np.testing.assert_allclose(found[:, components:].var(axis=0).sum(), variances[components:].sum(), atol=1e-8)


def test_pca_beats_the_others_where_the_sample_is_telling():
    rng = np.random.default_rng(2)
    patterns = rng.standard_normal((3, 100))
    forms, _ = normals(rng.standard_normal((80, 3)) @ patterns + 0.01 * rng.standard_normal((80, 100)))
    transform = PCA.fit(forms[:40], 3)
    unseen = forms[40:]
    energy = {t.name: (t.coordinates(unseen, 3) ** 2).sum(axis=1).mean() / 100 for t in (transform, FFT(), Haar())}
    assert energy["pca"] > 0.99
    assert max(energy["fft"], energy["haar"]) < 0.5


def test_pca_takes_raw_series_and_leaves_out_constant_rows():
    series = walks(np.random.default_rng(4), 30, 25)
    mixed = np.vstack((np.full((3, 25), 7.0), series))
    assert PCA.fit(mixed, 4) == PCA.fit(series, 4)
    assert PCA.fit(series * 8 + 0.0, 4) == PCA.fit(series, 4)
    assert PCA.fit(series, 4) != PCA.fit(series, 5)
    assert PCA.fit(series, 4) != PCA.fit(series[:-1], 4)
    assert len(repr(PCA.fit(series, 4))) < 80


def test_pca_of_as_many_components_as_there_can_be():
    series = walks(np.random.default_rng(4), 30, 6)
    forms, _ = normals(series)
    found = PCA.fit(series, 5).coordinates(forms)
    assert found.shape == (30, 5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), sqrt(6))


@pytest.mark.parametrize(
    ("sample", "components", "message"),
    [
        (
            np.zeros((0, 9)),
            2,
            "more than 2 rows of different shapes for 2 components; got 0 rows, 0 of them not constant",
        ),
        (walks(np.random.default_rng(1), 2, 9), 2, "more than 2 rows .*; got 2 rows, 2 of them not constant"),
        (np.ones((20, 9)), 1, "more than 1 rows .*; got 20 rows, 0 of them not constant; at the sample of PCA"),
        (np.tile([1.0, 2, 4, 3], (20, 1)), 1, "more than 1 rows .*; got rows that differ in 0 directions"),
        (
            np.tile([[1.0, 2, 4, 3], [0, 0, 1, 5]], (9, 1)),
            2,
            "more than 2 rows .*; got rows that differ in 1 directions",
        ),
        (np.where(np.eye(9) > 0, np.nan, 1.0)[::-1], 2, "finite numbers; got NaN or infinity; at row 0 of the sample"),
        (np.vstack((np.eye(9), np.full(9, np.inf))), 2, "finite numbers; got NaN or infinity; at row 9 of the sample"),
        (np.eye(9), 0, "1 to 8 components for 9 numbers; got 0; at PCA"),
        (np.eye(9), 9, "1 to 8 components for 9 numbers; got 9; at PCA"),
        (np.eye(9), 2.0, "1 to 8 components for 9 numbers; got 2.0; at PCA"),
        (np.eye(2), 1, r"rows of 3 to 65536 numbers; got an array of shape \(2, 2\); at the sample of PCA"),
        (np.arange(9.0), 1, r"rows of 3 to 65536 numbers; got an array of shape \(9,\); at the sample of PCA"),
    ],
)
def test_samples_that_pca_cannot_use(sample, components, message):
    with pytest.raises(SettingError, match=f"^expected {message}"):
        PCA.fit(sample, components)


@pytest.mark.parametrize("n", [3, 24, 26])
def test_pca_is_for_the_length_of_its_sample(n):
    transform = made("pca", 25)
    with pytest.raises(
        SettingError, match=f"^expected series of 25 numbers, as in the sample of PCA; got {n} numbers$"
    ):
        transform.coordinates(np.zeros((2, n)))
    with pytest.raises(SettingError, match=r"^expected series of 25 numbers"):
        transform.width(n)
