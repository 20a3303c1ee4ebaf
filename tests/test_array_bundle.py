"""Arrays in one piece of bytes: what goes in comes out, from memory and from a file, and what is broken is said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

from tidegate import array_bundle
from tidegate.errors import StoreError

TYPES = st.sampled_from(["<i8", "<i4", "|u1", "<u8", "<f8", "|b1"])
ARRAYS = st.dictionaries(
    st.text(max_size=8), drawn.arrays(TYPES, drawn.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
)
FACTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=5), lambda of: st.lists(of, max_size=3)
)


@given(arrays=ARRAYS, facts=FACTS)
def test_what_goes_in_comes_out(tmp_path_factory, arrays, facts):
    data = array_bundle.packed(arrays, facts)
    path = tmp_path_factory.mktemp("bundle") / "some"
    path.write_bytes(data)
    for found, told in (array_bundle.unpacked(data), array_bundle.unpacked(bytearray(data)), array_bundle.read(path)):
        assert told == facts
        assert list(found) == list(arrays)
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            assert found[name].shape == array.shape
            assert found[name].tobytes() == array.tobytes()


def test_arrays_lie_where_kernels_like_them_and_are_not_copied(tmp_path):
    data = bytearray(array_bundle.packed({"a": np.arange(3, dtype=np.uint8), "b": np.arange(4.0)}))
    arrays, _ = array_bundle.unpacked(data)
    base = np.frombuffer(data, np.uint8).ctypes.data
    assert [(array.ctypes.data - base) % 64 for array in arrays.values()] == [0, 0]
    arrays["b"][1] = 7.0
    assert array_bundle.unpacked(data, verify=False)[0]["b"].tolist() == [0.0, 7.0, 2.0, 3.0]
    path = tmp_path / "some"
    path.write_bytes(data)
    mapped = array_bundle.read(path, verify=False)[0]["b"]
    mapped[1] = 9.0  # kernels want arrays that can be written to; the file stays as it is
    assert array_bundle.read(path, verify=False)[0]["b"][1] == 7.0


def test_arrays_that_are_not_contiguous():
    grid = np.arange(12).reshape(3, 4)
    found, _ = array_bundle.unpacked(array_bundle.packed({"column": grid[:, 1], "turned": grid.T}))
    assert found["column"].tolist() == [1, 5, 9]
    assert found["turned"].tolist() == grid.T.tolist()


WHOLE = array_bundle.packed({"a": np.arange(100)}, {"x": 1})
BROKEN = {
    "empty": b"",
    "other first bytes": b"PAR1" + WHOLE[4:],
    "only the first bytes": WHOLE[:4],
    "half a head": WHOLE[:20],
    "half of the arrays": WHOLE[:-400],
    "another head": WHOLE[:16] + b"?" + WHOLE[17:],
    "a head that is no object": b"TGB1" + (2).to_bytes(8, "little") + b"[]" + bytes(50),
    "a shape that is none": b"TGB1" + (46).to_bytes(8, "little") + b'{"arrays":[["a","<i8",[-1],0]],"facts":null}  ',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_said(tmp_path, data):
    path = tmp_path / "some"
    path.write_bytes(data)
    with pytest.raises(StoreError, match="bundle of arrays") as found:
        array_bundle.read(path)
    assert str(path) in str(found.value)


def test_every_flipped_bit_is_noticed_or_changes_nothing():
    arrays, facts = {"a": np.arange(9, dtype=np.uint8), "b": np.arange(3.0)}, {"x": 1}
    whole = array_bundle.packed(arrays, facts)
    refused = 0
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        try:
            found, told = array_bundle.unpacked(data)
        except StoreError:
            refused += 1
            continue
        assert told == facts
        assert {name: array.tolist() for name, array in found.items()} == {n: a.tolist() for n, a in arrays.items()}
    head = whole.index(b"}}") + 2
    assert refused == 8 * (head + 9 + 24)  # all but what pads


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match=r"a file with a bundle of arrays; got .*No such file"):
        array_bundle.read(tmp_path / "none")
