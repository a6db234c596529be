"""Create, drop, compact, list and advise on the secondary indexes of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.api.services import TableServices
from lakebed.errors import InvalidError
from lakebed.index.secondary.definition import IndexDefinition, parse_definitions
from lakebed.index.secondary.open_index import OpenIndex, UnusableIndex, open_indexes
from lakebed.services.indexing.advisor import IndexAdvice, advise_indexes
from lakebed.services.indexing.build import Built, create_index, drop_index
from lakebed.services.indexing.compact import IndexCompaction, compact_index
from lakebed.services.indexing.estimate import IndexEstimate, estimate_index
from lakebed.table.snapshot import Snapshot
from lakebed.terminal.html import rows_html
from lakebed.terminal.progress import showing
from lakebed.terminal.text import size_text
from lakebed.write.pipeline import WriteTarget


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """A secondary index and its size.

    `state` is "ready", or the reason why no query uses the index. `open_entries` are candidates of
    every query until the index is compacted. `changed_keys` counts the keys written since the base
    runs; at most that many of the `entries` are stale. `uncovered` counts file groups that another
    engine wrote to; queries read all their rows.
    """

    name: str
    columns: tuple[str, ...]
    state: str
    entries: int = 0
    open_entries: int = 0
    changed_keys: int = 0
    uncovered: int = 0
    runs: int = 0
    size_bytes: int = 0

    def __str__(self) -> str:
        """Return the index as one line."""
        text = f"{self.name} ({', '.join(self.columns)}): {self.state}"
        if self.state != "ready":
            return text
        return (
            f"{text}, {self.entries:,} entries in {self.runs:,} runs, {size_text(self.size_bytes)}, "
            f"{self._share(self.open_entries)} open, at most {self._share(self.changed_keys)} stale, "
            f"{self.uncovered:,} file groups not covered"
        )

    def _share(self, number: int) -> str:
        return f"{number / max(1, self.entries):.1%}"


class Indexes(tuple[IndexInfo, ...]):
    """The secondary indexes of a table, sorted by name; `print` them to read them."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "(no secondary indexes)"

    def _repr_html_(self) -> str:
        rows = (
            (
                i.name,
                ", ".join(i.columns),
                i.state,
                f"{i.entries:,}",
                i.runs,
                size_text(i.size_bytes),
            )
            for i in self
        )
        names = ("index", "columns", "state", "entries", "runs", "size")
        return rows_html("secondary indexes", names, rows)


class TableIndexes(TableServices):
    """The operations of a table on its secondary indexes."""

    def create_index(
        self, name: str, columns: Sequence[str], if_not_exists: bool = False
    ) -> Built | None:
        """Create a secondary index and build it from the rows of the table.

        Other processes may read and write the table during the build. Queries use the index once it
        is complete. An interrupted build is resumed by `repair`, or by a call with
        `if_not_exists=True`.

        Args:
            name: Letters, digits, `-` and `_`, beginning with a letter.
            columns: One or more columns, or fields of a struct (`place.city`), whose type has an
                order.
            if_not_exists: Return None if an index of this name exists.

        Raises:
            ExistsError: An index of this name exists.
            SchemaError: A column does not exist, or its values have no order.
            InvalidError: The name is not valid, or the table has a custom merger.

        Example:
            >>> import pyarrow as pa, lakebed
            >>> t = lakebed.create_table(None, "memory://doc/index", "id BIGINT, v STRING", key="id")
            >>> first = t.insert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
            >>> print(t.create_index("by_v", ["v"]).entries)
            2
        """
        self._check_writable()
        given = list(columns) if _is_list(columns) else columns
        if not isinstance(name, str) or not isinstance(given, list):
            raise InvalidError(
                f"create_index: expected a name and a list of columns, found {name!r}, {columns!r}"
            )

        def work(target: WriteTarget) -> Built | None:
            built, self._config = create_index(target, name, given, if_not_exists=if_not_exists)
            return built

        with showing(f"create index {name}"):
            return self._act(work)

    def drop_index(self, name: str, if_exists: bool = False) -> None:
        """Remove a secondary index and its files; the rows of the table do not change.

        Args:
            name: The index.
            if_exists: Do nothing if the index does not exist, instead of raising NotFoundError.
        """
        self._check_writable()

        def work(target: WriteTarget) -> None:
            self._config = drop_index(target, name, if_exists=if_exists)

        self._act(work)

    def compact_index(self, name: str) -> IndexCompaction | None:
        """Replace the stale and open entries of a secondary index with current ones.

        Writes also do this when an index has more than `lakebed.index.compact.max.runs` runs of
        commits. Other processes may read and write the table during the compaction.

        Args:
            name: The index.

        Returns:
            The result, or None if the index is not usable or another process changed it first.
        """
        self._check_writable()
        with showing(f"compact index {name}"):
            return self._act(lambda target: compact_index(target, name, force=True))

    def estimate_index(self, columns: Sequence[str]) -> IndexEstimate:
        """Estimate the size and selectivity of an index on `columns` from a sample of the rows.

        Nothing is written. `print` the result to read it.

        Args:
            columns: The columns, as for `create_index`.

        Raises:
            SchemaError: A column does not exist, or its values have no order.
        """
        return estimate_index(self._snapshot(None), columns)

    def advise_indexes(self) -> tuple[IndexAdvice, ...]:
        """Return indexes that past reads could have used, those with the largest saving first.

        This needs the table property `lakebed.index.advisor` (see `set_properties`): once it is
        true, each scan records the columns of its predicate, without values, in a small file.
        """
        self._scan_log.write()
        snapshot = self._snapshot(None)
        return advise_indexes(snapshot, parse_definitions(snapshot.config.properties))

    def indexes(self) -> Indexes:
        """Return the secondary indexes of the table, with their state and size; `print` them."""
        return describe_indexes(self._snapshot(None))


def describe_indexes(snapshot: Snapshot) -> Indexes:
    """Return the secondary indexes at a snapshot, with their state and size."""
    return Indexes(_describe(index) for index in open_indexes(snapshot))


def _describe(index: OpenIndex | UnusableIndex) -> IndexInfo:
    definition: IndexDefinition = index.definition
    if isinstance(index, UnusableIndex):
        return IndexInfo(definition.name, definition.columns, index.reason)
    manifest = index.manifest
    since = [manifest.delta, *manifest.commits.values()]
    runs = [*manifest.base, *(run for of in since for run in of.files)]
    return IndexInfo(
        definition.name,
        definition.columns,
        "ready",
        index.num_entries,
        index.num_open,
        sum(run.entries for of in manifest.commits.values() for run in of.files)
        + sum(run.entries for run in manifest.delta.deleted),
        len(manifest.whole),
        len(runs),
        sum(run.size_bytes for run in runs),
    )


def _is_list(columns: object) -> bool:
    return (
        isinstance(columns, Sequence)
        and not isinstance(columns, (str, bytes))
        and all(isinstance(column, str) for column in columns)
    )
