"""What a table is, as a value that prints itself."""

from dataclasses import dataclass

from lakebed.api.layers import size_text
from lakebed.services.verify.findings import plural
from lakebed.table.config.ddl import type_text
from lakebed.table.config.writer_index import WriterIndex
from lakebed.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Description:
    """What a table is and holds; `print` it to read it.

    `columns` are pairs of a name and a type, as Spark spells types.
    """

    name: str
    path: str
    table_type: str
    layout: str
    version: int
    index: str
    merge_mode: str
    key: tuple[str, ...]
    ordering: tuple[str, ...]
    partition_by: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    commits: int
    last_instant: str | None
    pending: tuple[str, ...]
    partitions: int
    file_groups: int
    files: int
    size_bytes: int

    def __str__(self) -> str:
        facts = {
            "path": self.path,
            "type": f"{self.table_type}, layout {self.layout}, table version {self.version}",
            "key": ", ".join(self.key) or "made by the table",
            "ordering": ", ".join(self.ordering) or "none: the later write wins",
            "partition by": ", ".join(self.partition_by) or "not partitioned",
            "index": self.index,
            "merge mode": self.merge_mode,
            "commits": f"{self.commits}, the last {self.last_instant}"
            if self.commits
            else "none yet",
            "files": f"{plural(self.files, 'file')} in {plural(self.file_groups, 'file group')} of "
            f"{plural(self.partitions, 'partition')}, {size_text(self.size_bytes)}",
        }
        if self.pending:
            facts["pending"] = ", ".join(self.pending)
        width = max(map(len, facts))
        lines = [self.name, *(f"  {what:<{width}}  {text}" for what, text in facts.items())]
        lines.append("  columns")
        widest = max((len(name) for name, _ in self.columns), default=0)
        return "\n".join(
            [*lines, *(f"    {name:<{widest}}  {kind}" for name, kind in self.columns)]
        )


def describe(snapshot: Snapshot) -> Description:
    """Describe the table of a snapshot."""
    config, commits = snapshot.config, snapshot.timeline.commits
    slices = snapshot.slices
    files = [file for slice_ in slices for file in slice_.files]
    return Description(
        name=config.name,
        path=snapshot.storage.url,
        table_type=str(config.table_type),
        layout=str(config.layout),
        version=config.version,
        index=index_text(config.index),
        merge_mode=str(config.merge_mode),
        key=config.record_key_fields,
        ordering=config.ordering_fields,
        partition_by=config.partition_fields,
        columns=tuple(
            (field.name, type_text(field.type) + ("" if field.nullable else " not null"))
            for field in snapshot.schema
        ),
        commits=len(commits),
        last_instant=commits[-1].requested if commits else None,
        pending=tuple(f"{i.action} {i.requested}" for i in snapshot.timeline.pending()),
        partitions=len({slice_.group.partition for slice_ in slices}),
        file_groups=len(slices),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
    )


def index_text(index: WriterIndex | None) -> str:
    """Spell the index of a table for people."""
    return "no index stored" if index is None else str(index)
