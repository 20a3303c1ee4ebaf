"""Laws that every transform passes, an obvious-loop oracle of each, and equation 10 of the seed stated precisely."""

from __future__ import annotations

import cmath
import pickle
import subprocess
import sys
from itertools import pairwise
from math import ceil, pi, sqrt

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tidegate.errors import SettingError
from tidegate.shapes.normal_form import distance, normal, normals
from tidegate.shapes.transforms import FFT, PAA, PCA, TRANSFORMS, Haar

NAMES = (*TRANSFORMS, "paa of 5", "pca")
#: Odd, even, powers of two, primes, and lengths around the number of blocks.
LENGTHS = (
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    13,
    15,
    16,
    17,
    18,
    31,
    32,
    33,
    64,
    97,
    100,
    127,
    128,
    129,
    210,
    255,
    256,
    257,
    299,
    300,
)


def walks(rng, rows, n):
    return np.cumsum(rng.uniform(-500, 500, (rows, n)), axis=1)


def made(name, n):
    """The transform of that name for series of n numbers."""
    if name == "pca":
        components = min(5, n - 1)
        return PCA.fit(walks(np.random.default_rng(n), 4 * components + 4, n), components)
    return PAA(5) if name == "paa of 5" else TRANSFORMS[name]()


KINDS = {
    "walk": walks,
    "noise": lambda rng, rows, n: rng.standard_normal((rows, n)),
    "spike": lambda rng, rows, n: np.eye(n)[rng.integers(0, n, rows)],
    "step": lambda rng, rows, n: (np.arange(n) >= rng.integers(1, n, rows)[:, None]) * 1.0,
    "wave": lambda rng, rows, n: np.sin(rng.uniform(0, 3, (rows, 1)) * np.arange(n) + rng.uniform(0, 6, (rows, 1))),
    "zigzag": lambda rng, rows, n: (-1.0) ** np.arange(n) + 1e-3 * rng.standard_normal((rows, n)),
    "near": lambda rng, rows, n: walks(rng, 1, n) + 1e-6 * rng.standard_normal((rows, n)),
}


FEW, ANY_LENGTH = st.integers(2, 6), st.sampled_from(LENGTHS) | st.integers(3, 300)


@st.composite
def stacks(draw, rows=FEW, lengths=ANY_LENGTH):
    """Normal forms of one length, of all kinds mixed."""
    n, count, rng = draw(lengths), draw(rows), np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=count, max_size=count))
    near = KINDS["near"](rng, count, n)
    forms, held = normals(np.vstack([near[i] if k == "near" else KINDS[k](rng, 1, n)[0] for i, k in enumerate(kinds)]))
    assert held.all()
    return forms


def close(n):
    """How much distances of normal forms of n numbers, whose norm is √n, may differ."""
    return 1e-9 * sqrt(n)


# Laws


@pytest.mark.parametrize("name", NAMES)
@given(stacks())
def test_distances_stay_what_they_are(name, forms):
    n, transform = forms.shape[1], made(name, forms.shape[1])
    found = transform.coordinates(forms)
    assert found.shape == (len(forms), transform.width(n))
    assert found.dtype == np.float64
    for i in range(len(forms)):
        assert abs(np.linalg.norm(found[i]) - sqrt(n)) <= close(n)  # nothing of the series is lost
        for j in range(i):
            assert abs(np.linalg.norm(found[i] - found[j]) - distance(forms[i], forms[j])) <= close(n)


@pytest.mark.parametrize("name", NAMES)
@given(stacks())
def test_no_prefix_is_further_apart_than_the_series(name, forms):
    n = forms.shape[1]
    found = made(name, n).coordinates(forms)
    for i in range(len(forms)):
        for j in range(i):
            prefixes = np.sqrt(np.cumsum((found[i] - found[j]) ** 2))
            assert (prefixes <= distance(forms[i], forms[j]) * (1 + 1e-9) + 1e-12 * sqrt(n)).all()


@pytest.mark.parametrize("name", NAMES)
@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=40), st.floats(-1e3, 1e3))
def test_series_of_any_numbers_lose_nothing(name, values, other):
    a, b = normal(values), normal([*values[:-1], other])
    assume(a is not None and b is not None)
    found = made(name, len(values)).coordinates(np.vstack((a, b)))
    assert abs(np.linalg.norm(found[0] - found[1]) - distance(a, b)) <= close(len(values))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [*range(3, 40), 97, 128, 255])
def test_coordinates_are_an_orthonormal_basis(name, n):
    transform = made(name, n)
    basis = transform.coordinates(np.eye(n)).T
    assert transform.width(n) == len(basis) == (n if name.startswith("paa") else n - 1)
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)
    if len(basis) < n:  # what is left out is the mean and nothing else
        np.testing.assert_allclose(basis @ np.ones(n), 0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@given(stacks(rows=st.integers(1, 40)), st.data())
def test_a_row_does_not_depend_on_the_others(name, forms, data):
    transform = made(name, forms.shape[1])
    whole = transform.coordinates(forms)
    for i in range(len(forms)):
        assert transform.coordinates(forms[i : i + 1])[0].tobytes() == whole[i].tobytes()
    order = data.draw(st.permutations(range(len(forms))))
    assert transform.coordinates(forms[order]).tobytes() == whole[order].tobytes()
    # Nor on how the rows lie in memory.
    assert transform.coordinates(np.asfortranarray(forms)).tobytes() == whole.tobytes()
    assert transform.coordinates(np.repeat(forms, 2, axis=0)[::2]).tobytes() == whole.tobytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [2039, 2040, 4096])
def test_many_long_rows_do_not_depend_on_one_another(name, n):
    forms, _ = normals(walks(np.random.default_rng(n), 150, n))
    transform = made(name, n)
    whole = transform.coordinates(forms)
    for i in (0, 1, 31, 32, 63, 64, 65, 149):
        assert transform.coordinates(forms[i : i + 1])[0].tobytes() == whole[i].tobytes()
    assert (
        np.abs(np.linalg.norm(whole[0] - whole[1:], axis=1) - np.linalg.norm(forms[0] - forms[1:], axis=1)).max() < 1e-9
    )


@pytest.mark.parametrize("name", NAMES)
@given(stacks(), st.integers(0, 8) | st.integers(0, 310))
def test_the_first_coordinates_are_the_same_alone(name, forms, first):
    transform = made(name, forms.shape[1])
    whole = transform.coordinates(forms)
    some = transform.coordinates(forms, first)
    assert some.shape[1] == min(first, whole.shape[1])
    assert some.tobytes() == whole[:, :first].tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_given_is_not_written_to(name):
    forms, _ = normals(walks(np.random.default_rng(1), 4, 50))
    before = forms.copy()
    forms.flags.writeable = False
    made(name, 50).coordinates(forms)
    assert (forms == before).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_rows_and_rows_of_zeros(name):
    transform = made(name, 20)
    assert transform.coordinates(np.empty((0, 20))).shape == (0, transform.width(20))
    assert not transform.coordinates(np.zeros((2, 20))).any()


@pytest.mark.parametrize("name", NAMES)
def test_transforms_are_values(name):
    transform, same = made(name, 20), made(name, 20)
    assert transform == same
    assert hash(transform) == hash(same)
    copy = pickle.loads(pickle.dumps(transform))
    assert copy == transform
    forms, _ = normals(walks(np.random.default_rng(1), 4, 20))
    assert copy.coordinates(forms).tobytes() == transform.coordinates(forms).tobytes()
    assert all(transform != made(other, 20) for other in NAMES if other != name)
    with pytest.raises(AttributeError):
        transform.name = "another"


def test_names():
    assert list(TRANSFORMS) == ["fft", "haar", "paa"]
    assert all(kind().name == name for name, kind in TRANSFORMS.items())
    assert made("pca", 9).name == "pca"


def test_equal_bits_in_another_process():
    code = (
        "import sys, pickle; t, f = pickle.load(sys.stdin.buffer);"
        "sys.stdout.buffer.write(b''.join(x.coordinates(f).tobytes() for x in t))"
    )
    transforms, forms = [made(name, 100) for name in NAMES], normals(walks(np.random.default_rng(1), 7, 100))[0]
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps((transforms, forms)),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert run.stdout == b"".join(transform.coordinates(forms).tobytes() for transform in transforms)


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


# Principal components


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
