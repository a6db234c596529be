"""Check the columns that the clauses of a merge assign, against the columns of the table."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import InvalidError, SchemaError, UnsupportedError
from lakebed.expr.bind import missing_column
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.groups.definition import ColumnGroups
from lakebed.table.config.table_config import TableConfig
from lakebed.write.clauses.clause import Act, Clause, Expression, Literal, MergeStatement

Equated = Mapping[str, str]
"""The target columns that the join condition equates with a column of the source."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The columns that a clause assigns, by their names in the table.

    `sources` are columns of the source, `values` expressions. With `yields`, a row whose ordering
    value is lower than that of the target row is late and changes nothing, as in an upsert.
    """

    clause: Clause
    sources: Mapping[str, str]
    values: Mapping[str, Expression]
    yields: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the assigned columns."""
        return frozenset((*self.sources, *self.values))


def identity_of(config: TableConfig) -> tuple[str, ...]:
    """Return the columns that identify a row; none if the table generates its keys.

    With a global index the partition of a row may change.
    """
    if not config.record_key_fields:
        return ()
    is_global = config.index is not None and config.index.is_global
    partition = () if is_global else config.partition_fields
    return tuple(dict.fromkeys((*config.record_key_fields, *partition)))


def check_mergeable(config: TableConfig, *, has_merger: bool, what: str) -> None:
    """Raise UnsupportedError for a table that combines the versions of a row."""
    if has_merger or config.fill is not None:
        how = "has a custom merger" if has_merger else "merges column by column"
        raise UnsupportedError(
            f"cannot {what} {config.name!r}: the table {how}, so a new version of a row would be "
            "combined with the one that it replaces; use upsert"
        )


def assign_columns(
    statement: MergeStatement,
    config: TableConfig,
    schema: pa.Schema,
    source: Collection[str],
    equated: Equated,
) -> tuple[Assigned, ...]:
    """Return the assigned columns of each clause; raise an error for one that is not valid."""
    return tuple(
        _Columns(statement, clause, config, schema, source, equated).assigned()
        for clause in statement.clauses
    )


def written_columns(
    schema: pa.Schema, groups: ColumnGroups, clauses: Collection[Assigned]
) -> list[str]:
    """Return the columns of the rows to write: all, or those of the column groups that change."""
    acts = {one.clause.act for one in clauses}
    if not groups or Act.INSERT in acts:
        return list(schema.names)
    touched = {groups.owner(name) for one in clauses for name in one.names} or {""}
    names = {*groups.shared, *(c for c in schema.names if groups.owner(c) in touched)}
    names.update(c for name in touched for c in groups.ordering_of(name))
    return [name for name in schema.names if name in names]


def ordering_columns(
    config: TableConfig, groups: ColumnGroups, written: Collection[str]
) -> tuple[tuple[str, ...], ...]:
    """Return the ordering columns of the column groups that are written, each set of them once."""
    if not groups:
        return (config.ordering_fields,) if config.ordering_fields else ()
    found = {groups.ordering_of(groups.owner(c)) for c in written if c not in groups.shared}
    return tuple(sorted(columns for columns in found if columns))


class _Columns:
    """The columns of one clause."""

    def __init__(
        self,
        statement: MergeStatement,
        clause: Clause,
        config: TableConfig,
        schema: pa.Schema,
        source: Collection[str],
        equated: Equated,
    ) -> None:
        self._statement = statement
        self._clause = clause
        self._config = config
        self._schema = schema
        self._source = source
        self._equated = equated

    def assigned(self) -> Assigned:
        clause = self._clause
        if clause.act is Act.DELETE:
            return Assigned(clause, {}, {})
        if clause.values is None:
            names: list[str] = self._schema.names
            sources: Mapping[str, str] = {name: self._source_column(name) for name in names}
            values: Mapping[str, Expression] = {}
        else:
            sources, values = {}, self._named(clause.values)
        if clause.act is Act.UPDATE:
            sources, values = self._without_identity(sources, values)
        else:
            self._check_given({*sources, *values})
        return Assigned(clause, sources, values, yields=clause.takes_all)

    def _named(self, values: Mapping[str, Expression]) -> Mapping[str, Expression]:
        """Return the values by the names of columns in the table."""
        found: dict[str, Expression] = {}
        for given, value in values.items():
            name = self._unqualified(given)
            near = [known for known in self._schema.names if known.lower() == name.lower()]
            if len(near) != 1:
                if name in META_COLUMNS:
                    raise SchemaError(f"{self._clause}: meta column {name!r} cannot be assigned")
                nested = name.partition(".")[0]
                if nested in self._schema.names:
                    raise UnsupportedError(
                        f"{self._clause}: {name!r}: expected a column; assign the whole of {nested!r}"
                    )
                raise SchemaError(f"{self._clause}: {missing_column(name, self._schema.names)}")
            if near[0] in found:
                raise InvalidError(f"{self._clause}: column {near[0]!r} is assigned twice")
            self._check_null(near[0], value)
            found[near[0]] = value
        return found

    def _unqualified(self, name: str) -> str:
        alias, dot, rest = name.partition(".")
        is_target = dot and alias.lower() == self._statement.target.lower()
        return rest if is_target and name not in self._schema.names else name

    def _source_column(self, name: str) -> str:
        near = [known for known in self._source if known.lower() == name.lower()]
        if name in near:
            return name
        if len(near) != 1:
            raise SchemaError(
                f"{self._clause}: the source has no column {name!r}, which all columns of the table "
                f"need; it has {', '.join(self._source)}: add it, or assign columns one by one"
            )
        return near[0]

    def _check_null(self, name: str, value: Expression) -> None:
        is_null = isinstance(value, Literal) and value.value is None
        if is_null and not self._schema.field(name).nullable:
            raise SchemaError(f"{self._clause}: column {name!r} is NOT NULL; assign a value")

    def _without_identity(
        self, sources: Mapping[str, str], values: Mapping[str, Expression]
    ) -> tuple[Mapping[str, str], Mapping[str, Expression]]:
        """Leave out key and partition columns that are assigned the value that they have.

        Raises InvalidError if they are assigned another value.
        """
        config = self._config
        fixed = identity_of(config)
        for name in fixed:
            given = sources.get(name) or plain_column(values.get(name), self._statement.source)
            if name not in sources and name not in values:
                continue
            same = given is not None and self._equated.get(name, "").lower() == given.lower()
            own = plain_column(values.get(name), self._statement.target)
            if not same and (own is None or own.lower() != name.lower()):
                what = "key" if name in config.record_key_fields else "partition"
                raise InvalidError(
                    f"{self._clause}: {what} column {name!r} identifies a row and cannot be changed; "
                    f"leave it out, or equate it with a column of the source in the condition: "
                    f"{self._statement.target}.{name} = {self._statement.source}.{name}. To move a "
                    "row, delete it and insert it again"
                )
        sources = {name: column for name, column in sources.items() if name not in fixed}
        values = {name: value for name, value in values.items() if name not in fixed}
        return sources, values

    def _check_given(self, names: Collection[str]) -> None:
        """Raise SchemaError if a row to insert lacks a column that every row needs."""
        config = self._config
        needed = dict.fromkeys(config.record_key_fields, "is a key column")
        needed |= dict.fromkeys(config.ordering_fields, "orders the versions of a row")
        needed |= {f.name: "is NOT NULL" for f in self._schema if not f.nullable}
        for name, why in needed.items():
            if name not in names:
                raise SchemaError(f"{self._clause}: column {name!r} {why}; give it a value")


def plain_column(value: Expression | None, alias: str) -> str | None:
    """Return the column of the table `alias` that an expression consists of; None for any other."""
    text = str(value).strip() if value is not None and not isinstance(value, Literal) else ""
    if text.startswith("Column<'") and text.endswith("'>"):
        text = text[len("Column<'") : -len("'>")]
    qualifier, dot, name = text.replace("`", "").partition(".")
    return name if dot and qualifier.lower() == alias.lower() else None
