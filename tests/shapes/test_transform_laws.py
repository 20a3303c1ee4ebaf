"""Laws that every transform passes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from math import sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.shapes.drawn_series import NAMES, close, made, stacks, walks
from tidegate.shapes.normal_form import distance, normal, normals
from tidegate.shapes.transforms import TRANSFORMS


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
