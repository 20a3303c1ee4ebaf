"""An obvious-loop oracle of each transform, and equation 10 of the seed stated precisely."""

from __future__ import annotations

import cmath
from itertools import pairwise
from math import ceil, pi, sqrt

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.shapes.drawn_series import close, made, stacks, walks
from tidegate.errors import SettingError
from tidegate.shapes.normal_form import distance, normal, normals
from tidegate.shapes.transforms import FFT, PAA, Haar

# Fourier


def unitary(series):
    """All n coefficients, unitary, as the paper's equation defines them; loops, no FFT."""
    n = len(series)
    return [
        sum(x * cmath.exp(-2j * pi * (i * t % n) / n) for t, x in enumerate(map(float, series))) / sqrt(n)
        for i in range(n)
    ]


@given(stacks(rows=st.just(1), lengths=st.integers(3, 70)))
@example(normals(np.array([[0.0, 0.0, 1.0]]))[0])
@example(normals(np.array([[0.0, 1.0, 0.0, 1.0]]))[0])
def test_fft_is_the_scaled_dft(forms):
    n, coefficients = forms.shape[1], unitary(forms[0])
    expected = []
    for i in range(1, ceil(n / 2)):
        expected += [sqrt(2) * coefficients[i].real, sqrt(2) * coefficients[i].imag]
    if n % 2 == 0:
        assert abs(coefficients[n // 2].imag) < close(n)
        expected.append(coefficients[n // 2].real)
    np.testing.assert_allclose(FFT().coordinates(forms)[0], expected, atol=close(n))


@given(stacks(rows=st.just(2), lengths=st.integers(3, 60)), st.data())
def test_equation_10_holds_for_coefficients_1_to_below_the_middle(forms, data):
    """D ≤ ε ⇒ D_F ≤ ε/√2, whichever of the coefficients 1 … ⌈n/2⌉ − 1 are features; all of an odd length give D/√2."""
    n, (a, b) = forms.shape[1], forms
    tolerance = distance(a, b)  # the smallest ε with D ≤ ε
    x, y = unitary(a), unitary(b)
    assert abs(x[0]) <= close(n)  # the mean of a normal form
    assert all(abs(x[i] - x[n - i].conjugate()) <= close(n) for i in range(1, n))  # not n/2 + i, as printed
    below = range(1, ceil(n / 2))
    chosen = data.draw(st.lists(st.sampled_from(below), unique=True))
    assert sqrt(sum(abs(x[i] - y[i]) ** 2 for i in chosen)) <= tolerance / sqrt(2) + close(n)
    together = sqrt(sum(abs(x[i] - y[i]) ** 2 for i in below))
    if n % 2:
        assert together == pytest.approx(tolerance / sqrt(2), abs=close(n))
    else:  # the middle coefficient counts once and not twice
        middle = abs(x[n // 2] - y[n // 2])
        assert sqrt(2 * together**2 + middle**2) == pytest.approx(tolerance, abs=close(n))


@pytest.mark.parametrize("n", [4, 6, 10, 64])
def test_equation_10_fails_for_the_middle_coefficient_of_an_even_length(n):
    """Two shapes that differ in nothing else: with ε = D their features are D apart, and ε/√2 would dismiss a match."""
    slow = np.cos(2 * np.pi * np.arange(n) / n)
    zigzag = (-1.0) ** np.arange(n)
    a, b = normal(slow + 0.1 * zigzag), normal(slow - 0.1 * zigzag)
    tolerance = distance(a, b)
    apart = abs(unitary(a)[n // 2] - unitary(b)[n // 2])
    assert apart == pytest.approx(tolerance)
    assert apart > 1.4 * tolerance / sqrt(2)
    # The coordinates do not scale it, and so dismiss nothing.
    found = FFT().coordinates(np.vstack((a, b)))
    assert abs(found[0, -1] - found[1, -1]) <= tolerance * (1 + 1e-12)


# Haar and blocks


def wavelets(n, blocks):
    """Vectors of block means and of halves inside blocks, halves by depth and then by place; loops and recursion."""
    cuts = [i * n // blocks for i in range(blocks + 1)]
    means = [[1 / sqrt(b - a) if a <= t < b else 0.0 for t in range(n)] for a, b in pairwise(cuts)]
    halves = []

    def split(a, b, depth):
        if b - a < 2:
            return
        m = (a + b) // 2
        low, high = -1 / (m - a), 1 / (b - m)
        vector = [low if a <= t < m else high if m <= t < b else 0.0 for t in range(n)]
        norm = sqrt(sum(v * v for v in vector))
        halves.append((depth, a, [v / norm for v in vector]))
        split(a, m, depth + 1)
        split(m, b, depth + 1)

    for a, b in pairwise(cuts):
        split(a, b, 0)
    return means, [vector for _, _, vector in sorted(halves)]


@pytest.mark.parametrize("n", [3, 4, 5, 7, 8, 15, 16, 17, 33, 60, 61])
def test_haar_and_paa_are_their_wavelets(n):
    basis = np.eye(n)
    np.testing.assert_allclose(Haar().coordinates(basis).T, wavelets(n, 1)[1], atol=1e-14)
    for blocks in (1, 2, 5, 16):
        means, halves = wavelets(n, min(n, blocks))
        np.testing.assert_allclose(PAA(blocks).coordinates(basis).T, [*means, *halves], atol=1e-14)


def test_haar_of_four_and_of_three():
    np.testing.assert_allclose(
        Haar().coordinates(np.array([[-1.0, -1, 1, 1], [-1, 1, -1, 1]])), [[2, 0, 0], [0, 2**0.5, 2**0.5]]
    )
    np.testing.assert_allclose(Haar().coordinates(np.array([[-2.0, 1, 1]])), [[sqrt(6), 0]])


def test_paa_begins_with_the_means_of_its_blocks():
    series = normals(walks(np.random.default_rng(3), 1, 50))[0]
    found = PAA(4).coordinates(series)[0]
    for i, (a, b) in enumerate([(0, 12), (12, 25), (25, 37), (37, 50)]):
        assert found[i] == pytest.approx(series[0, a:b].mean() * sqrt(b - a))


def test_paa_of_short_series_is_the_series():
    series = normals(walks(np.random.default_rng(3), 3, 9))[0]
    np.testing.assert_array_equal(PAA(16).coordinates(series), series)
    np.testing.assert_array_equal(PAA(9).coordinates(series), series)


@pytest.mark.parametrize("blocks", [0, -1, 65_537, 2.5, "8"])
def test_paa_of_so_many_blocks_cannot_be(blocks):
    with pytest.raises(SettingError, match=r"^expected a number of blocks from 1 to 65536; got .*; at PAA"):
        PAA(blocks)


@pytest.mark.parametrize("name", ["haar", "paa"])
def test_long_series_are_not_blurred_by_rounding(name):
    forms, _ = normals(walks(np.random.default_rng(5), 2, 65_536))
    found = made(name, 65_536).coordinates(forms)
    assert np.linalg.norm(found[0] - found[1]) == pytest.approx(distance(*forms), rel=1e-12)


# Energy


@pytest.mark.parametrize(
    ("transform", "least"),
    [(FFT(), 0.8), (Haar(), 0.8), (PAA(10), 0.8), (PAA(), 0.45)],
    ids=["fft", "haar", "paa10", "paa"],
)
@pytest.mark.parametrize("n", [100, 255, 512])
def test_ten_coordinates_of_random_walks_hold_most_of_their_energy(transform, least, n):
    forms, _ = normals(walks(np.random.default_rng(n), 400, n))
    held = (transform.coordinates(forms, 10) ** 2).sum(axis=1) / n
    assert held.mean() > least
    if transform == PAA():  # ten means of sixteen say nothing of the rest of the series; all sixteen do
        assert held.mean() < 0.8
        assert (transform.coordinates(forms, 16) ** 2).sum(axis=1).mean() / n > 0.85
