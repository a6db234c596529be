"""Secondary indexes of the rows that a table holds now, written by hand."""

from dataclasses import replace

import pyarrow as pa

from lakebed.api.table import Table
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.definition import IndexDefinition
from lakebed.index.secondary.entries import make_entries, sort_entries, write_entries
from lakebed.index.secondary.manifest import Manifest, put_manifest
from lakebed.index.secondary.open_index import index_folder
from lakebed.table.config.properties_file import update_properties


def index_by_hand(table: Table, name: str, columns: list[str]) -> IndexDefinition:
    """Define an index and build it from all rows; commits after it are not covered."""
    snapshot = table._snapshot(None)
    storage = table._storage
    definition = IndexDefinition.create(name, columns, snapshot.schema, "0a1b2c3d")
    update_properties(storage, {definition.property_name: definition.encode()})
    tops = dict.fromkeys(column.split(".")[0] for column in definition.columns)
    rows = table.read(columns=[RECORD_KEY, PARTITION_PATH, *tops]).read_all().combine_chunks()
    entries = []
    for batch in rows.to_batches():
        for partition in batch.column(PARTITION_PATH).unique().to_pylist():
            own = batch.filter(pa.compute.equal(batch.column(PARTITION_PATH), partition))
            entries.append(make_entries(own, definition.columns, partition))
    folder = index_folder(table._snapshot(None).config, definition)
    run = write_entries(storage, f"{folder}/base.parquet", [sort_entries(entries)])
    manifest = replace(Manifest.at(snapshot.timeline), is_complete=True, base=(run,))
    put_manifest(storage, folder, manifest)
    return definition
