"""Index layers: snapshots of a registry's versions, as files that every Python worker of a machine maps.

``Registry.prepare`` writes them through ``IndexLayers``, and the select step opens them as a ``View``. Subscriptions
lie in immutable layers; a manifest names the layers and the subscriptions that have ended since they were made, and so
stands for all versions from its ``oldest`` to its ``version``. A change adds a small layer; layers of similar size are
merged, large ones in a thread of their own. A storage at a plain path is mapped where it lies; one at a URL is copied
once per machine.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import SnapshotError, StoreError, TidegateError, shown
from tidegate.index import Index
from tidegate.index.catalogue import SCHEMA, Catalogue
from tidegate.index.patterns import Patterns
from tidegate.index.snapshot import save, write_array
from tidegate.index.versioned import Ended, Layer, View
from tidegate.patterns import Pattern
from tidegate.store.manifest import Manifest, ManifestLayer, current, file_name, serials
from tidegate.store.storage import Storage, storage_at
from tidegate.store.stored_subscription import StoredSubscription
from tidegate.subscriptions.bulk import without_garbage_collection

__all__ = ["IndexLayers"]

_LOG = logging.getLogger("tidegate")

#: A layer is merged with the one before it unless that one is this many times larger, as ``Index`` does with segments.
_RATIO = 4
#: Merges of more subscriptions than this run in a thread of their own, so that ``extend`` does not wait for them.
_ASIDE = 16_384
#: A layer is written anew when more than this share of it has ended before any version that is needed.
_ENDED = 0.25
#: Seconds after which a merged layer that no manifest names was left behind by a process that died.
_ABANDONED = 3600
#: Manifests that are kept beside the newest, for workers that are just about to open one.
_KEPT = 3


class IndexLayers:
    """The layers and manifests of one storage. ``lock`` keeps two processes from building the same layer."""

    def __init__(
        self, location: str | os.PathLike[str], lock: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> None:
        self._storage: Storage = storage_at(location)
        self._lock = lock
        self._opened: dict[str, Layer] = {}
        self._view: tuple[int, View] | None = None
        self._merging: threading.Thread | None = None

    # --- reading ----------------------------------------------------------------------------------------------------

    def current(self) -> Manifest | None:
        """The newest manifest."""
        return current(self._storage)

    def covers(self, oldest: int, version: int) -> bool:
        """Whether ``view`` would find a manifest that stands for these versions."""
        if self._view is not None and self._view[1].covers(oldest, version):
            return True
        manifest = self.current()
        return manifest is not None and manifest.covers(oldest, version)

    def view(self, oldest: int, version: int) -> View:
        """The layers that stand for these versions, opened; cached, so that a worker maps a layer once."""
        if self._view is not None and self._view[1].covers(oldest, version):
            return self._view[1]
        for last in (
            False,
            False,
            True,
        ):  # a layer may be removed after its manifest was read; then there is a newer manifest
            manifest = self.current()
            if manifest is None or not manifest.covers(oldest, version):
                there = f"versions {manifest.oldest} to {manifest.version}" if manifest else "none"
                raise StoreError(f"snapshots of versions {oldest} to {version}", there, str(self._storage))
            if self._view is not None and self._view[0] == manifest.serial:
                return self._view[1]
            try:
                layers = [self._layer(named.name) for named in manifest.layers]
            except SnapshotError:
                if last:
                    raise
                continue
            self._opened = {named.name: layer for named, layer in zip(manifest.layers, layers, strict=True)}
            view = View(
                layers,
                [Ended(named.ended, named.ended_at) for named in manifest.layers],
                manifest.oldest,
                manifest.version,
            )
            self._view = manifest.serial, view
            return view
        raise AssertionError

    def discard_damaged(self) -> None:
        """If the manifest or a layer of it cannot be read, begin again with none: the registry has what was in them.

        The caller holds the lock.
        """
        try:
            manifest = self.current()
            for named in manifest.layers if manifest else ():
                Layer.open(self._storage.local(named.name))
        except (SnapshotError, StoreError) as error:
            _LOG.warning("index snapshots are made again from the registry: %s", error)
            self._publish(Manifest(1 + max(serials(self._storage)), 0, 0, ()))

    def _layer(self, name: str) -> Layer:
        return self._opened.get(name) or Layer.open(self._storage.local(name))

    # --- writing ----------------------------------------------------------------------------------------------------

    def extend(
        self, oldest: int, version: int, made: Iterable[StoredSubscription], ended: Sequence[tuple[int, int]] = ()
    ) -> Manifest:
        """Publish a manifest for ``oldest`` to ``version``.

        ``made`` are the subscriptions made since the last manifest. ``ended`` are those that ended since: pairs of the
        versions at which a subscription was made and ended. The caller holds the lock.
        """
        manifest = self.current()
        layers = [] if manifest is None else [self._marked(named, ended) for named in manifest.layers]
        rows = [row for row in made if row.until is None or row.until > oldest]
        if manifest and any(row.since <= manifest.version for row in rows):  # given again, and perhaps still in a layer
            here = {int(v) for named in layers for v in np.intersect1d(_sinces(rows), self._layer(named.name).since)}
            rows = [row for row in rows if row.since not in here]
        if layer := self._written(rows):
            layers.append(layer)
        layers, is_more = self._merged(layers, oldest)
        serial = 1 + (manifest.serial if manifest else 0)
        published = self._publish(Manifest(serial, oldest, version, tuple(layers)))
        if is_more:
            self._merge_aside()
        return published

    def _written(self, rows: Sequence[StoredSubscription]) -> ManifestLayer | None:
        if not rows:
            return None
        index, patterns = Index(), Patterns()
        with without_garbage_collection():
            for number, row in enumerate(rows):
                try:
                    found = row.compiled()
                except TidegateError as error:  # the process that took it knew more: a function, a named shape
                    name = shown(row.index_id)
                    error.at = f"{error.at} of subscription {name}" if error.at else name
                    raise
                if isinstance(found, Pattern):
                    patterns.add(number, found)
                else:
                    index.add(number, found)
        names = ["index_id" if name == "id" else name for name in SCHEMA.names]
        fields = [
            pa.array([getattr(row, name) for row in rows], field.type)
            for name, field in zip(names, SCHEMA, strict=True)
        ]
        gone = [(number, row.until) for number, row in enumerate(rows) if row.until is not None]
        ended = Ended([number for number, _ in gone], [until for _, until in gone])
        catalogue = Catalogue(pa.table(fields, SCHEMA))
        expired = np.array([row.expired for row in rows], np.bool_)
        return self._save("layer", index, catalogue, patterns, np.arange(len(rows)), _sinces(rows), expired, ended)

    def _save(
        self,
        kind: str,
        index: Index,
        catalogue: Catalogue,
        patterns: Patterns,
        numbers: NDArray[np.int64],
        since: NDArray[np.int64],
        expired: NDArray[np.bool_],
        ended: Ended,
    ) -> ManifestLayer:
        name = f"{kind}-{uuid4().hex}"
        place = np.full(len(since), -1, np.int64)
        place[numbers] = np.arange(len(numbers))

        def more(directory: Path) -> None:
            write_array(directory / "since.npy", since[numbers])
            write_array(directory / "expired.npy", np.flatnonzero(expired[numbers]))
            if len(patterns):
                patterns.save(directory / "patterns", place)

        self._storage.put(name, lambda directory: save(index, catalogue, directory, numbers, more))
        return ManifestLayer(name, len(numbers), ended.numbers, ended.versions)

    def _marked(self, named: ManifestLayer, ended: Sequence[tuple[int, int]]) -> ManifestLayer:
        """The layer with those of ``ended`` that it holds marked as ended."""
        if not ended:
            return named
        until = dict(ended)
        since = self._layer(named.name).since
        found = np.flatnonzero(np.isin(since, np.fromiter(until, np.int64, len(until))))
        if not len(found):
            return named
        gone = dict(zip(named.ended, named.ended_at, strict=True))
        gone |= {int(number): until[int(since[number])] for number in found}
        return ManifestLayer(named.name, named.count, list(gone), list(gone.values()))

    # --- merging ----------------------------------------------------------------------------------------------------

    def _merged(self, layers: list[ManifestLayer], oldest: int) -> tuple[list[ManifestLayer], bool]:
        """Merge small layers of similar size; also returns whether a merge is left that is too large to wait for."""
        while group := _next_merge(layers, oldest):
            if sum(named.count for named in group) > _ASIDE:
                return layers, True
            merged = self._merge("layer", group, oldest)
            at = layers.index(group[0])
            layers = [*layers[:at], *([merged] if merged else []), *layers[at + len(group) :]]
        return layers, False

    def _merge(self, kind: str, group: Sequence[ManifestLayer], oldest: int) -> ManifestLayer | None:
        """One layer of several, without the subscriptions that had ended by ``oldest``; None if none is left."""
        opened = [self._layer(named.name) for named in group]
        view = View(opened, [Ended(named.ended, named.ended_at) for named in group], oldest, oldest)
        until: dict[int, int] = {}
        for start, named in zip(np.cumsum([0, *(named.count for named in group)]), group, strict=False):
            until |= {int(start) + n: v for n, v in zip(named.ended, named.ended_at, strict=True)}
        kept = np.ones(len(view.since), np.bool_)
        for number, version in until.items():
            if version <= oldest:
                if number not in view.patterns:
                    view.index.remove(number)
                kept[number] = False
        if not kept.any():
            return None
        place = np.cumsum(kept) - 1
        left = {int(place[number]): version for number, version in until.items() if version > oldest}
        numbers = np.flatnonzero(kept)
        ended = Ended(list(left), list(left.values()))
        view.patterns.unite()
        rest = numbers, view.since, view.wants_expired, ended
        return self._save(kind, view.index, view.catalogue, view.patterns, *rest)

    def _merge_aside(self) -> None:
        """Start a thread that merges layers too large to wait for, and publishes each merged layer."""
        if self._merging is None or not self._merging.is_alive():
            self._merging = threading.Thread(target=self._merge_large, name="tidegate-index-layers", daemon=True)
            self._merging.start()

    def _merge_large(self) -> None:
        while (manifest := self.current()) and (group := _next_merge(manifest.layers, manifest.oldest)):
            merged = self._merge("merge", group, manifest.oldest)
            with self._lock():
                if not self._replace(group, merged, manifest.oldest):
                    return

    def _replace(self, group: Sequence[ManifestLayer], merged: ManifestLayer | None, oldest: int) -> bool:
        """Publish ``merged`` in place of ``group``; False if other layers or an older version are wanted by now.

        The merge has dropped the subscriptions that had ended by the version ``oldest``.
        """
        manifest = self.current()
        names = [named.name for named in manifest.layers] if manifest else []
        wanted = [named.name for named in group]
        at = names.index(wanted[0]) if wanted[0] in names else len(names)
        if manifest is None or manifest.oldest < oldest or names[at : at + len(group)] != wanted:
            return False
        now = manifest.layers[at : at + len(group)]
        if merged is not None:  # mark the subscriptions that ended during the merge
            pairs = [
                (int(self._layer(named.name).since[number]), version)
                for named in now
                for number, version in zip(named.ended, named.ended_at, strict=True)
            ]
            merged = self._marked(merged, pairs)
        layers = (*manifest.layers[:at], *((merged,) if merged else ()), *manifest.layers[at + len(group) :])
        self._publish(Manifest(manifest.serial + 1, manifest.oldest, manifest.version, layers))
        return True

    def wait(self) -> None:
        """Wait for the thread that merges large layers."""
        if self._merging is not None:
            self._merging.join()

    # --- publishing -------------------------------------------------------------------------------------------------

    def _publish(self, manifest: Manifest) -> Manifest:
        self._storage.write(file_name(manifest.serial), manifest.to_json())
        self._tidy(manifest.serial)
        return manifest

    def _tidy(self, newest: int) -> None:
        """Remove all but the newest manifests, and layers that no manifest names.

        A layer that the merging thread has just written (``merge-…``) is in no manifest yet, so it is removed only if
        a removed manifest named it, or after ``_ABANDONED`` seconds.
        """
        used, had_one = set[str](), set[str]()
        for serial in serials(self._storage):
            data, is_old = self._storage.read(file_name(serial)), serial <= newest - _KEPT
            with suppress(StoreError):  # a damaged one, from which nobody can know a layer
                (had_one if is_old else used).update(x.name for x in Manifest.from_json(serial, data or b"").layers)
            if is_old:
                self._storage.remove(file_name(serial))
        for name in self._storage.names():
            is_done = name.startswith("layer-") or name in had_one
            if name not in used and (is_done or (name.startswith("merge-") and self._storage.age(name) > _ABANDONED)):
                self._storage.remove(name)


def _sinces(rows: Sequence[StoredSubscription]) -> NDArray[np.int64]:
    return np.array([row.since for row in rows], np.int64)


def _next_merge(layers: Sequence[ManifestLayer], oldest: int) -> list[ManifestLayer] | None:
    """The layers to merge next: the last ones while they are of similar size, or one that has mostly ended."""
    if len(layers) > 1 and layers[-2].count <= _RATIO * layers[-1].count:
        first, total = len(layers) - 2, layers[-1].count + layers[-2].count
        while first > 0 and layers[first - 1].count <= _RATIO * total:
            first -= 1
            total += layers[first].count
        return list(layers[first:])
    for named in layers:
        if sum(version <= oldest for version in named.ended_at) > _ENDED * named.count:
            return [named]
    return None
