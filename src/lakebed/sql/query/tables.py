"""The tables that a query reads: names, time travel and table functions, resolved to sources."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa
from sqlglot import exp

from lakebed.api.table import Table
from lakebed.errors import InvalidError, NotFoundError
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.model.spelling import listed, nearest
from lakebed.scan.explain import Explanation
from lakebed.sql.session import Session
from lakebed.table.time_travel import PointInTime

_CDC: Final = ("op", "ts_ms", "before", "after")
_MODES: Final = ("latest_state", "cdc")
FUNCTIONS: Final = ("lakebed_changes", "hudi_table_changes")
"""The table functions: each reads the changes of a table."""
# An instant has at least the digits of a second; a shorter number counts commits.
_INSTANT_DIGITS: Final = 14


@dataclass(frozen=True, slots=True)
class Source:
    """What a query reads of a table: a snapshot, or the changes in a range of time.

    `schema` has the columns that a query can name, meta columns last.
    """

    table: Table
    schema: pa.Schema
    as_of: PointInTime | None = None
    since: str | None = None
    until: str | None = None
    mode: str = "snapshot"

    @classmethod
    def snapshot(cls, table: Table, as_of: PointInTime | None) -> Self:
        """Return a read of the table as of a time."""
        return cls(table, _with_meta(table.schema_as_of(as_of)), as_of)

    @classmethod
    def changes(cls, table: Table, since: str, until: str | None, mode: str) -> Self:
        """Return a read of the rows that commits wrote, or of their changes."""
        schema = table.schema
        if mode != "cdc":
            return cls(table, _with_meta(schema), None, since, until)
        row = pa.struct(list(schema))
        kinds = (pa.string(), pa.string(), row, row)
        return cls(table, pa.schema(list(zip(_CDC, kinds, strict=True))), None, since, until, mode)

    @property
    def is_range(self) -> bool:
        """Return whether this reads changes."""
        return self.since is not None

    def columns(self) -> list[str]:
        """Return the columns that `*` stands for."""
        return [name for name in self.schema.names if name not in META_COLUMNS]

    def read(self, columns: Sequence[str] | None, where: str | None) -> Any:
        """Return the rows as a DataFrame or a RecordBatchReader."""
        if self.mode == "cdc":
            return self.table.read(since=self.since, until=self.until, mode="cdc")
        return self.table.read(columns, where, self.as_of, self.since, self.until)

    def explain(self, columns: Sequence[str] | None, where: str | None) -> Explanation | None:
        """Return the plan of the read; None for a range of changes."""
        return None if self.is_range else self.table.explain(columns, where, self.as_of)


def _with_meta(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, *(pa.field(name, pa.string()) for name in META_COLUMNS)])


@dataclass(frozen=True, slots=True)
class Reference:
    """A Lakebed table in a query: its node, its source, and the name that qualifies its columns."""

    node: exp.Table
    source: Source
    alias: str


def find_references(session: Session, tree: exp.Expression) -> list[Reference]:
    """Return the Lakebed tables in a query, in no particular order.

    Other tables are left to Spark if there is a session and it knows them.
    """
    found = []
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Func):
            source = _function(session, node.this)
        elif not node.name or _is_cte(node):
            continue
        else:
            source = _table(session, node)
        if source is not None:
            found.append(Reference(node, source, node.alias or node.name))
    return found


def name_of(node: exp.Table) -> tuple[str, ...]:
    """Return the parts of a table's name."""
    return tuple(part.name for part in node.parts)


def _table(session: Session, node: exp.Table) -> Source | None:
    name = name_of(node)
    try:
        table = session.table(name)
    except (InvalidError, NotFoundError):
        if session.spark is not None and _spark_knows(session.spark, name):
            return None
        raise
    return Source.snapshot(table, _as_of(node.args.get("version")))


def _spark_knows(spark: Any, name: Sequence[str]) -> bool:
    quoted = ".".join("`" + part.replace("`", "``") + "`" for part in name)
    try:
        return bool(spark.catalog.tableExists(quoted))
    except Exception:  # noqa: BLE001 - the classes of Spark's errors differ by session
        return False


def _is_cte(node: exp.Table) -> bool:
    """Return whether the name is defined by a WITH clause around it."""
    if node.args.get("db") is not None:
        return False
    inner: exp.Expression = node
    while inner.parent is not None:
        outer = inner.parent
        with_ = outer.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            if cte is inner and not with_.args.get("recursive"):
                break  # a CTE sees only those before it
            if cte.alias.lower() == node.name.lower():
                return True
        if isinstance(outer, exp.With):
            for cte in outer.expressions:
                if cte is inner and not outer.args.get("recursive"):
                    break
                if cte.alias.lower() == node.name.lower():
                    return True
            # The statement around it holds the same list.
            inner = outer.parent if outer.parent is not None else outer
            continue
        inner = outer
    return False


def _as_of(version: exp.Expression | None) -> PointInTime | None:
    if version is None:
        return None
    given = _constant(version.args.get("expression"))
    if given is None:
        raise InvalidError(
            f"SQL: {version.name} AS OF: expected a string or a number, such as "
            "TIMESTAMP AS OF '2026-11-15 10:00:00' or VERSION AS OF 3"
        )
    text = str(given.this)
    if version.name.upper() == "VERSION" and text.isdigit() and len(text) < _INSTANT_DIGITS:
        return int(text)
    return text


def _constant(node: exp.Expression | None) -> exp.Literal | None:
    """Return a string or a number, also that of `TIMESTAMP '...'`; None for anything else."""
    inner = node.this if isinstance(node, exp.Cast) else node
    return inner if isinstance(inner, exp.Literal) else None


def _function(session: Session, call: exp.Func) -> Source | None:
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    if name not in FUNCTIONS:
        if name.startswith(("lakebed_", "hudi_")):
            raise InvalidError(f"SQL: unknown function {call.name}{nearest(name, FUNCTIONS)}")
        if session.spark is None:
            raise session.needs_spark(f"the table function {call.sql()[:40]}")
        return None
    is_ours = name == FUNCTIONS[0]
    wanted = ("table", "since", "until", "mode") if is_ours else ("table", "mode", "since", "until")
    given = _arguments(call, wanted)
    if "table" not in given:
        raise InvalidError(f"{name}: expected the name of a table as the first argument")
    mode = given.get("mode", "latest_state").lower()
    mode = "latest_state" if mode == "snapshot" else mode
    if mode not in _MODES:
        raise InvalidError(f"{name}: mode {mode!r}: expected {' or '.join(_MODES)}")
    table = session.table(table_parts(given["table"]))
    since = given.get("since", "earliest")
    return Source.changes(table, since, given.get("until"), mode)


def table_parts(text: str) -> tuple[str, ...]:
    """Return the parts of a table's name, or of a path, that is given as a string."""
    if "/" in text:
        path = text.strip().removeprefix("lakebed.").strip("`")
        return ("lakebed", path)
    return tuple(part.strip().strip("`") for part in text.split("."))


def _arguments(call: exp.Func, wanted: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for at, argument in enumerate(call.expressions):
        name, value = wanted[at] if at < len(wanted) else "", argument
        if isinstance(argument, exp.Kwarg):
            name, value = argument.this.name.lower(), argument.expression
            name = {"start": "since", "end": "until"}.get(name, name)
        if name not in wanted:
            raise InvalidError(
                f"{call.name}: unknown argument {argument.sql()[:60]}; expected {listed(wanted)}"
                f"{nearest(name, wanted)}"
            )
        constant = _constant(value)
        if constant is None:
            raise InvalidError(f"{call.name}: {name}: expected a string, found {value.sql()[:60]}")
        found[name] = str(constant.this)
    return found
