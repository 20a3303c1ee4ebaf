"""Threads that parse at once, also for the first time in a process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from threading import Barrier

import lark

from tidegate.language import parse, to_text

module = import_module("tidegate.language.parse")  # the package has the function under that name


def test_the_parser_is_built_by_one_thread(monkeypatch):
    made, together = [], Barrier(8)

    def counted(*words, **options):
        made.append(1)
        return lark.Lark(*words, **options)

    def first(number):
        together.wait(timeout=60)
        return to_text(parse(f"a > {number}"))

    monkeypatch.setattr(module, "Lark", counted)
    module._built.cache_clear()
    module._table.cache_clear()
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(first, range(8))) == [f"a > {number}" for number in range(8)]
    assert made == [1]
