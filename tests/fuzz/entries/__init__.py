"""The entry points by name."""

from __future__ import annotations

from tests.fuzz.entries.arrow_tables import ArrowTables
from tests.fuzz.entries.cql2_json import Cql2Json
from tests.fuzz.entries.csv_files import CsvFiles
from tests.fuzz.entries.jwts import Jwts
from tests.fuzz.entries.overlay_messages import OverlayMessages
from tests.fuzz.entries.publication_json import PublicationJson
from tests.fuzz.entries.rdf import Rdf
from tests.fuzz.entries.registry_rows import RegistryRows
from tests.fuzz.entries.stored_files import LogSegments, QueueFiles, Snapshots
from tests.fuzz.entries.text import Text
from tests.fuzz.entries.toml_files import TomlFiles
from tests.fuzz.entry_point import EntryPoint

ENTRIES: dict[str, type[EntryPoint]] = {
    entry.name: entry
    for entry in (
        Text,
        Cql2Json,
        PublicationJson,
        ArrowTables,
        CsvFiles,
        TomlFiles,
        Rdf,
        RegistryRows,
        OverlayMessages,
        Jwts,
        LogSegments,
        Snapshots,
        QueueFiles,
    )
}
