"""Whether a box lies in a union of boxes, exactly: held against every cell of the grid of all bounds."""

from __future__ import annotations

from math import inf, nan, nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.covering.boxes import MAX, bounds, boxes_of, chance, decide, is_covered, questions, tiles
from tests.parts.profiles import examples
from tidegate.covering.subsumption import NAMES, Boxes, Exact, Nothing, Pairwise, Probabilistic, subsumption_named
from tidegate.errors import SettingError, SubscriptionError
from tidegate.kernels.subsumption import NO, UNDECIDED, YES, in_union

# --- exactly ----------------------------------------------------------------------------------------------------------


@given(questions())
@examples(300)
def test_exact_equals_the_oracle(question):
    exact = Exact()
    assert decide(exact, *question) is is_covered(*question)
    assert exact.undecided == 0


@given(questions(), questions(), st.integers(0, 2**32))
@examples(100)
def test_what_each_way_may_say(question, other, seed):
    box, boxes = question
    truth = is_covered(box, boxes)
    assert decide(Nothing(), box, boxes) is False
    pairwise = decide(Pairwise(), box, boxes)
    assert pairwise is any(all(p <= a and b <= q for (a, b), (p, q) in zip(box, held, strict=True)) for held in boxes)
    assert truth or not pairwise
    # by chance one can only be wrong in saying that it is covered
    assert decide(chance(most=20, seed=seed), box, boxes) or not truth
    # more boxes cover no less, and their order and number does not matter
    more = boxes + [b for b in other[1] if len(b) == len(box)]
    assert decide(Exact(), box, more) or not truth
    shuffled = [boxes[i] for i in np.random.default_rng(seed).permutation(len(boxes))]
    assert decide(Exact(), box, shuffled + boxes) is truth


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 40))
@examples(150)
def test_tiles_cover_and_without_one_they_do_not(seed, d, count):
    rng = np.random.default_rng(seed)
    box, found = tiles(rng, d, count)
    assert decide(Exact(), box, found)
    assert decide(chance(most=50), box, found)
    missing = found.pop(rng.integers(count))
    assert not decide(Exact(), box, found)
    k = int(rng.integers(d))
    low, high = missing[k]
    if low < high:  # less by one double on one side
        less = (nextafter(low, inf), high) if rng.random() < 0.5 else (low, nextafter(high, -inf))
        assert not decide(Exact(), box, [*found, [*missing[:k], less, *missing[k + 1 :]]])
    assert decide(Exact(), box, [*found, missing])


def test_covered_means_that_no_drawn_point_is_outside():
    rng = np.random.default_rng(5)
    said = 0
    for _ in range(300):
        low = rng.uniform(-1, 0.4, (40, 3))
        high = low + rng.uniform(0.4, 1.2, (40, 3))
        among = boxes_of([list(zip(*row, strict=True)) for row in zip(low, high, strict=True)], 3)
        a, b = np.full(3, -0.3), rng.uniform(0, 0.4, 3)
        if Exact().covered(a, b, among) and not Pairwise().covered(a, b, among):
            said += 1
            points = np.concatenate([rng.uniform(a, b, (500, 3)), [a], [b]])
            inside = (among.arrays[0] <= points[:, None]) & (points[:, None] <= among.arrays[1])
            assert inside.all(2).any(1).all()
    assert said > 20


def test_boxes_around_one_point_cover_together_only_what_one_covers():
    """A corner of the tested box is in one of them, and then all of it is."""
    rng = np.random.default_rng(2)
    widths = 1 + rng.pareto(1, (200, 4))
    centre = rng.normal(size=4)
    among, found = Boxes(4), 0
    for width in widths:
        exact = Exact()
        covered = exact.covered(centre - width, centre + width, among)
        assert covered is Pairwise().covered(centre - width, centre + width, among)
        assert exact.pieces == 1
        found += covered
        among.add(centre - width, centre + width)
    assert 20 < found < 180


def test_a_budget_that_is_spent_says_not_covered_and_is_counted():
    box, found = tiles(np.random.default_rng(1), 3, 60)
    among = boxes_of(found, 3)
    low, high = bounds(box)
    answer, needed, compared = in_union(*among.arrays, low, high, 10**6)
    assert answer == YES
    assert needed > 60
    assert compared > needed
    assert in_union(*among.arrays, low, high, needed) == (YES, needed, compared)
    assert in_union(*among.arrays, low, high, needed - 1)[:2] == (UNDECIDED, needed - 1)
    short = Exact(budget=needed - 1)
    assert [short.covered(low, high, among) for _ in range(2)] == [False, False]
    assert (short.undecided, short.pieces) == (2, 2 * (needed - 1))
    assert short.compared < 2 * compared


def test_tiles_need_less_than_five_pieces_each():
    """What is chosen to cut with, and in which order, decides nothing but how long it takes."""
    exact = Exact()
    for seed in range(20):
        box, found = tiles(np.random.default_rng(seed), 5, 150)
        assert decide(exact, box, found)
    assert exact.pieces / 20 < 700  # 679 at the time of writing, 1,199 if the largest box is taken


def test_a_corner_in_no_box_is_seen_at_once():
    among = Boxes(5)
    for i in range(100):
        among.add(np.full(5, -1.0 - i), np.array([9.0 + i, 9, 9, 9, 0.5]))
    assert in_union(*among.arrays, np.zeros(5), np.ones(5), 1) == (NO, 1, 100)


@pytest.mark.parametrize(
    ("box", "boxes", "expected"),
    [
        ([(0, 0)], [], False),
        ([(0, 0)], [[(0, 0)]], True),
        ([(-0.0, 0)], [[(0.0, -0.0)]], True),
        ([(1, 2)], [[(1, 1)], [(2, 2)]], False),
        ([(1, nextafter(1, 2))], [[(1, 1)], [(nextafter(1, 2), 2)]], True),
        ([(0, 1), (5, 5)], [[(0, 0.5), (5, 5)], [(nextafter(0.5, 1), 1), (4, 6)]], True),
        ([(-inf, inf)], [[(-MAX, MAX)]], False),
        ([(-inf, inf)], [[(-inf, 0)], [(5e-324, inf)]], True),
        ([(-inf, inf)], [[(-inf, -5e-324)], [(5e-324, inf)]], False),
        ([(-MAX, MAX)], [[(-inf, 1)], [(nextafter(1, 2), MAX)]], True),
        ([(-MAX, MAX)], [[(-inf, 1)], [(nextafter(1, 2), nextafter(MAX, 0))]], False),
        ([(inf, inf)], [[(0, MAX)]], False),
        ([(inf, inf)], [[(0, inf)]], True),
        ([(-inf, inf)] * 2, [[(-inf, 0), (-inf, inf)], [(5e-324, inf), (-inf, 3)], [(0, inf), (3, inf)]], True),
        # a hole in the middle that no corner sees
        ([(0, 3), (0, 3)], [[(0, 3), (0, 1)], [(0, 3), (2, 3)], [(0, 1), (0, 3)], [(2, 3), (0, 3)]], False),
    ],
)
def test_exact_at_the_edges(box, boxes, expected):
    assert is_covered(box, boxes) is expected
    assert decide(Exact(), box, boxes) is expected
    assert decide(chance(), box, boxes) or not expected


# --- the set, and what is refused -------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(0, 9)), max_size=60))
@examples(60)
def test_boxes_come_and_go(steps):
    among, model = Boxes(2), {}
    given_out = set()
    for adds, which, at in steps:
        if adds or not model:
            box = [(float(at), at + 1.0), (-float(at), inf)]
            handle = among.add(*bounds(box))
            assert handle not in given_out
            given_out.add(handle)
            model[handle] = box
        else:
            handle = sorted(model)[which % len(model)]
            among.remove(handle)
            del model[handle]
        assert len(among) == len(model)
        assert all((handle in among) is (handle in model) for handle in given_out)
        low, high = among.arrays
        rows = sorted(zip(low.tolist(), high.tolist(), strict=True))
        assert rows == sorted(([a for a, _ in box], [b for _, b in box]) for box in model.values())


def test_what_a_removed_box_covered_is_covered_no_more():
    among = Boxes(1)
    handles = [among.add([float(i)], [i + 1.0]) for i in range(20)]
    ask = np.array([0.0]), np.array([20.0])
    assert Exact().covered(*ask, among)
    among.remove(handles[7])
    assert not Exact().covered(*ask, among)
    twice = [among.add([7.0], [8.0]) for _ in range(2)]
    among.remove(twice[0])
    assert Exact().covered(*ask, among)
    with pytest.raises(SubscriptionError, match="expected the number of a box of the set; got 7"):
        among.remove(handles[7])


@pytest.mark.parametrize("name", NAMES)
def test_each_has_its_name(name):
    way = subsumption_named(name, **({"rng": np.random.default_rng(0)} if name == "probabilistic" else {}))
    assert way.name == name
    assert way.covered(np.zeros(1), np.ones(1), Boxes(1)) is False
    assert (way.undecided, way.compared) == (0, 0)
    assert way.covered([0], [1], boxes_of([[(0, 2)]], 1)) is (name != "none")
    assert way.compared == (name != "none")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: subsumption_named("exactly"), "expected one of none, pairwise, exact, probabilistic; got 'exactly'"),
        (lambda: subsumption_named("pairwise", budget=3), "expected options of pairwise; got 'budget'"),
        (lambda: subsumption_named("probabilistic"), "expected options of probabilistic; got none"),
        (lambda: Exact(budget=0), "expected a whole number of at least 1; got 0; at budget"),
        (lambda: Exact(budget=1.5), "got 1.5; at budget"),
        (lambda: Exact(budget=True), "got True; at budget"),
        (lambda: chance(error=0.0), "expected a probability above 0 and below 1; got 0.0; at error"),
        (lambda: chance(error=1.0), "got 1.0; at error"),
        (lambda: chance(error=nan), "got nan; at error"),
        (lambda: chance(error="0.1"), "got '0.1'; at error"),
        (lambda: chance(most=0), "got 0; at most"),
        (lambda: Probabilistic(7), "expected a generator of random numbers; got 7; at rng"),
        (lambda: Boxes(0), "got 0; at dimension"),
    ],
)
def test_settings_that_are_refused(make, message):
    with pytest.raises(SettingError, match=message.replace(".", r"\.")):
        make()


@pytest.mark.parametrize("way", [Pairwise(), Exact(), chance()], ids=lambda way: way.name)
@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([1.0, 0.0], [0.0, 1.0], "expected ranges with something in them; got"),
        ([0.0, 0.0], [1.0, nan], "expected ranges with something in them; got"),
        ([0.0], [1.0], "expected bounds in 2 dimensions; got"),
        ([0.0, 0.0], [1.0, 1.0, 1.0], "expected bounds in 2 dimensions; got"),
        ([[0.0, 0.0]], [[1.0, 1.0]], "expected bounds in 2 dimensions; got"),
    ],
)
def test_boxes_that_are_none(way, low, high, message):
    among = boxes_of([[(0, 2), (0, 2)]], 2)
    with pytest.raises(SubscriptionError, match=message):
        way.covered(np.array(low), np.array(high), among)
    with pytest.raises(SubscriptionError, match=message):
        among.add(low, high)
    assert len(among) == 1
