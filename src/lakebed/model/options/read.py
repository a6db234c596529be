"""Parse the options of `spark.read.format("lakebed")`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from lakebed.errors import InvalidError, OptionError
from lakebed.model.options import data_source as of
from lakebed.model.options.option import Option, Scope
from lakebed.model.options.registry import check_given

_EARLIEST: Final = re.compile(r"0+|earliest", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read, whose mode is snapshot, read_optimized, incremental or cdc."""

    path: str
    mode: str = "snapshot"
    as_of: str | None = None
    since: str | None = None
    until: str | None = None
    # A predicate, and whether the filters of a query are used too.
    where: str | None = None
    pushdown: bool = False
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    @classmethod
    def parse(
        cls, given: Mapping[str, str], *, needs_begin: bool = True
    ) -> tuple[Self, tuple[str, ...]]:
        """Parse the options of one read; also return a log line for each that has no effect.

        A stream of changes has no begin: it starts where its own option says.
        """
        options = {str(name).lower(): value for name, value in given.items()}
        path = path_of(options)
        checked = check_given(options, Scope.READ)
        held = checked.values
        mode = held.get(of.QUERY.name) or held.get(of.VIEW.name) or of.QUERY.kind.default
        since, until, as_of = (held.get(option.name) for option in (of.BEGIN, of.END, of.AS_OF))
        if mode != "incremental":
            _refuse_beside(held, mode, of.BEGIN, of.END, of.FORMAT)
            since = until = None
        else:
            _refuse_beside(held, mode, of.AS_OF)
            if since is None and needs_begin:
                raise OptionError(f"option {of.QUERY.name}=incremental needs {of.BEGIN.name}")
            if since is not None and _EARLIEST.fullmatch(since):
                since = "earliest"
            if of.FORMAT.value(held) == "cdc":
                mode = "cdc"
                _refuse_beside(held, mode, of.WHERE)
        storage = checked.of_family(of.STORAGE) or None
        where, pushdown = held.get(of.WHERE.name), of.PUSHDOWN.value(held)
        return cls(path, mode, as_of, since, until, where, pushdown, storage), checked.lines


def path_of(options: Mapping[str, str]) -> str:
    """Return the path of a read or write."""
    if "paths" in options:
        raise InvalidError("a lakebed table is one folder: use load(path) with one path")
    path = options.get(of.PATH.name)
    # Spark adds "owner" when it creates a catalog table, which would lose its options.
    if not path or "owner" in options:
        raise InvalidError(
            "format lakebed: expected the path of a table with each read and write: load(path), save(path) or "
            "OPTIONS (path '...'). Spark passes neither the name nor the location of a table that "
            'spark.sql creates USING lakebed: call lakebed.sql(spark, "CREATE TABLE ...") and '
            "lakebed.sql for all statements on it, use CREATE TEMPORARY VIEW ... USING lakebed "
            "OPTIONS (path '...'), or add WITH (path='...') to each statement"
        )
    return path


def _refuse_beside(held: Mapping[str, str], mode: str, *options: Option[str]) -> None:
    for option in options:
        if held.get(option.name, option.kind.default) != option.kind.default:
            raise OptionError(
                f"option {option.name} cannot be combined with {of.QUERY.name}={mode}"
            )
