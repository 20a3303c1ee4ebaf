"""Series of every length and kind, and a transform for them."""

from __future__ import annotations

from math import sqrt

import numpy as np
from hypothesis import strategies as st

from tidegate.shapes.normal_form import normals
from tidegate.shapes.transforms import PAA, PCA, TRANSFORMS

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
