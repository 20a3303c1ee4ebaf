"""``tidegate backup`` and ``tidegate restore``: copies of data directories, and data directories of these."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from tidegate.cli.progress import progress
from tidegate.errors import SettingError

if TYPE_CHECKING:
    from tidegate.broker.backup_manifest import BackupManifest

__all__ = ["backup", "restore"]

AsJson = Annotated[bool, typer.Option("--json", help="Say what was done as one JSON object.")]


def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A data directory.")],
    target: Annotated[Path, typer.Argument(help="The directory of the backup: one that is not there yet, or empty.")],
    as_json: AsJson = False,
) -> None:
    """Back up a data directory while its run, publishers and readers go on.

    A backup has everything of one moment: the log, the registry, queues, cursors and the checkpoint of the run. All
    files are copied; a run waits for a fraction of a second. A backup that was interrupted is none: restore
    refuses it.

    \b
    Example:
      tidegate backup broker backups/monday
    """
    from tidegate.broker.backup import back_up
    from tidegate.store.data_directory import DataDirectory

    found = DataDirectory.found(directory)
    if found is None:
        raise SettingError("a data directory", "none", str(directory))
    manifest = back_up(found, target, progress)
    _tell({"target": str(target), **manifest.summary()}, f"backed up to {target}", manifest, as_json)


def restore(
    target: Annotated[Path, typer.Argument(help="A backup.")],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data directory: one that is not there yet, or empty.")
    ],
    as_json: AsJson = False,
) -> None:
    """Make a data directory of a backup.

    Every file is compared with its checksum, and the directory appears whole or not at all. Queues get other epochs:
    their readers are told of a gap, and go on from the oldest delivery that is kept.

    \b
    Example:
      tidegate restore backups/monday broker
    """
    from tidegate.broker.restore import restore as restored

    found = restored(target, directory, progress)
    facts = {"directory": str(directory), "queues": found.queues, **found.manifest.summary()}
    _tell(facts, f"restored to {directory} as of {found.manifest.made_at}", found.manifest, as_json)


def _tell(facts: dict[str, Any], what: str, manifest: BackupManifest, as_json: bool) -> None:
    if as_json:
        typer.echo(orjson.dumps(facts))
        return
    begin, end = manifest.rows
    batches = f"after batch {manifest.batch}" if manifest.batch >= 0 else "before its first batch"
    typer.echo(
        f"{what}: {len(manifest.files):,} files of {manifest.nbytes / 1e6:,.1f} MB; {end - begin:,} rows of the log, "
        f"registry at version {manifest.version:,}, runner {manifest.runner} {batches}"
    )
