"""The same on real data: windows of daily closes, and series with classes that a match should agree with.

The paper leaves this to future work. Every function gives its rows, or none and says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bench.harness import say
from bench.papers.timeseries.archive import ECG, STOCKS, UCR, ecg, labelled, windows
from bench.papers.timeseries.brute import Found, matching, same
from bench.papers.timeseries.feature_space import NAMES
from bench.papers.timeseries.plan import Plan
from bench.papers.timeseries.race import race
from bench.papers.timeseries.walks import Series, features, scale
from tidegate.shapes.normal_form import distance, normals
from tidegate.shapes.sphere_group import SphereGroup

__all__ = ["CORRELATIONS", "DAYS", "REACHES", "SPLIT", "beats", "classified", "found_beats", "stocks"]

Doubles = NDArray[np.float64]

DAYS, SPLIT = 64, "2015-01-01"
#: D² = 2n (1 − ρ), so a tolerance can be had, and read, as a correlation whatever the length.
CORRELATIONS = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7)
#: How far a beat's window reaches before its peak and after it, in median beats. All were looked at before the first
#: one was chosen, so all are reported.
REACHES = ((0.25, 0.5), (0.35, 0.7), (0.5, 0.5), (0.5, 0.7), (0.7, 0.5))
#: Samples by which a window may miss a beat and still be said to have found it.
_MISS = 5


def _absent(path: Path) -> bool:
    if not path.exists():
        say(f"left out: {path} is not there")
    return not path.exists()


def stocks(plan: Plan, seed: int) -> Iterator[dict[str, Any]]:
    """Windows of the past as subscriptions, windows of the years after as publications."""
    if _absent(STOCKS):
        return
    past, future = windows(DAYS, SPLIT)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(past))[: plan.windows])
    subscriptions, held = normals(past[chosen])
    drawn, shaped = normals(future[rng.permutation(len(future))[: max(count for count, _ in plan.races.values())]])
    series = Series(subscriptions[held], rng.random(int(held.sum())), drawn[shaped])
    centres, points = features(series.subscriptions, plan.k), features(series.publications, plan.k)
    for share, (publications, rounds) in plan.races.items():
        c = scale(series, centres, points[: plan.publications], share)
        few = series.first(len(centres), publications)
        yield race(plan, f"stocks, about {100 * share:g} % candidates", few, plan.k, c, rounds)


def classified(name: str) -> Iterator[dict[str, Any]]:
    """A data set of the UCR archive: its training series are the subscriptions, its test series the publications."""
    if _absent(UCR):
        return
    data = labelled(name)
    train, test = (normals(each)[0] for each in (data.train, data.test))
    apart = np.array([[distance(publication, subscription) for subscription in train] for publication in test])
    nearest = data.train_classes[apart.argmin(axis=1)]
    agree = data.test_classes[:, None] == data.train_classes[None, :]
    points = []
    for correlation, epsilon, found, exact in _matched(train, test):
        told = np.zeros(agree.shape, bool)
        told[np.repeat(np.arange(len(test)), np.diff(found[0])), found[1]] = True
        right = int((told & agree).sum())
        points.append(
            {
                "correlation": correlation,
                "epsilon": epsilon,
                "matches": int(told.sum()),
                "precision": right / int(told.sum()) if told.any() else None,
                "recall": right / int(agree.sum()),
                "reached": float((told & agree).any(axis=1).mean()),
                "exact": exact and np.array_equal(told, apart <= epsilon),
            }
        )
    yield {
        "what": f"{name}, classes",
        "subscriptions": len(train),
        "length": train.shape[1],
        "publications": len(test),
        "accuracy": float((nearest == data.test_classes).mean()),
        "points": points,
        "exact": all(point["exact"] for point in points),
    }


def _beats(reach: tuple[float, float]) -> tuple[Doubles, NDArray[np.int64], NDArray[np.bool_], int, int]:
    """Beats as normal forms, where they peak, which are marked; how far a beat reaches before its peak and after."""
    record = ecg()
    beat = float(np.median(np.diff(record.peaks)))
    before, after = (round(beat * part) for part in reach)
    inside = (record.peaks >= before) & (record.peaks + after <= len(record.values))
    peaks = record.peaks[inside]
    shapes, _ = normals(np.array([record.values[peak - before : peak + after] for peak in peaks]))
    return shapes, peaks, record.marked[peaks], before, after


def beats() -> Iterator[dict[str, Any]]:
    """Beats of the first half as subscriptions: a beat of the second half that matches none is held to be abnormal."""
    if _absent(ECG):
        return
    shapes, _, marked, _, _ = _beats(REACHES[0])
    half = len(shapes) // 2
    known, after, truth = shapes[:half], shapes[half:], marked[half:]
    nearest = _nearest(shapes)
    points = []
    for correlation, epsilon, found, exact in _matched(known, after):
        strange = np.diff(found[0]) == 0
        right = int((strange & truth).sum())
        points.append(
            {
                "correlation": correlation,
                "epsilon": epsilon,
                "strange": int(strange.sum()),
                "precision": right / int(strange.sum()) if strange.any() else None,
                "recall": right / int(truth.sum()),
                "exact": exact and np.array_equal(strange, nearest > epsilon),
            }
        )
    yield {
        "what": "ECG, abnormal beats",
        "subscriptions": half,
        "length": shapes.shape[1],
        "publications": len(after),
        "marked": int(truth.sum()),
        "marked_before": int(marked[:half].sum()),
        "reaches": [_apart(reach) for reach in REACHES],
        "points": points,
        "exact": all(point["exact"] for point in points),
    }


def _nearest(shapes: Doubles) -> Doubles:
    """How far each beat of the second half is from the nearest of the first."""
    half = len(shapes) // 2
    return np.array([min(distance(beat, each) for each in shapes[:half]) for beat in shapes[half:]])


def _apart(reach: tuple[float, float]) -> dict[str, float]:
    """How near the marked beat comes to the first half, and how far from it the strangest of the others is."""
    shapes, _, marked, _, _ = _beats(reach)
    nearest, truth = _nearest(shapes), marked[len(shapes) // 2 :]
    of_marked, of_others = float(nearest[truth].min()), float(nearest[~truth].max())
    return {"before": reach[0], "after": reach[1], "marked": of_marked, "others": of_others}


def found_beats() -> Iterator[dict[str, Any]]:
    """The same subscriptions, and every window of the second half as a publication: a match should be at a beat."""
    if _absent(ECG):
        return
    shapes, peaks, _, before, after = _beats(REACHES[0])
    half = len(shapes) // 2
    begin = int(peaks[half]) - before - _MISS
    publications, held = normals(sliding_window_view(ecg().values[begin:], before + after))
    centred = begin + before + np.arange(len(publications))
    at_beat = np.abs(centred[:, None] - peaks[None, half:]) <= _MISS
    points = []
    for correlation, epsilon, found, exact in _matched(shapes[:half], publications):
        told = (np.diff(found[0]) > 0) & held
        points.append(
            {
                "correlation": correlation,
                "epsilon": epsilon,
                "matches": int(told.sum()),
                "precision": float(at_beat.any(axis=1)[told].mean()) if told.any() else None,
                "recall": float(at_beat[told].any(axis=0).mean()),
                "exact": exact,
            }
        )
    yield {
        "what": "ECG, where beats are",
        "subscriptions": half,
        "length": shapes.shape[1],
        "publications": len(publications),
        "beats": len(peaks) - half,
        "points": points,
        "exact": all(point["exact"] for point in points),
    }


def _matched(subscriptions: Doubles, publications: Doubles) -> Iterator[tuple[float, float, Found, bool]]:
    """Matches at every tolerance, and whether all structures and brute force found the same."""
    n = subscriptions.shape[1]
    for correlation in CORRELATIONS:
        epsilon = sqrt(2 * n * (1 - correlation))
        radii = np.full(len(subscriptions), epsilon)
        found = [SphereGroup(subscriptions, radii, structure=name).match(publications) for name in NAMES]
        right = [matching(subscriptions, radii, publication) for publication in publications]
        start = np.concatenate([[0], np.cumsum([len(rows) for rows in right])])
        naive = start, np.concatenate(right).astype(np.int32)
        yield correlation, epsilon, found[0], all(same(each, naive) for each in found)
