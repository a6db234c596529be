"""The options of `spark.read.format("lakebed")`, as values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from lakebed.errors import InvalidError, OptionError
from lakebed.model.datasource_options import AS_OF, check_read, split_storage
from lakebed.model.options import canonical

_QUERY: Final = "hoodie.datasource.query.type"
_VIEW: Final = "hoodie.datasource.view.type"
_FORMAT: Final = "hoodie.datasource.query.incremental.format"
_BEGIN: Final = "hoodie.datasource.read.begin.instanttime"
_END: Final = "hoodie.datasource.read.end.instanttime"
_WHERE: Final = "lakebed.read.where"
_PUSHDOWN: Final = "lakebed.read.filter.pushdown"
_EARLIEST: Final = re.compile(r"0+|earliest", re.IGNORECASE)
# What the older option calls a snapshot.
_VIEWS: Final = {"realtime": "snapshot"}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What one read asks for: the mode is snapshot, read_optimized, incremental or cdc."""

    path: str
    mode: str = "snapshot"
    as_of: str | None = None
    since: str | None = None
    until: str | None = None
    # A predicate, and whether the filters of a query are taken over too.
    where: str | None = None
    pushdown: bool = False
    storage_options: Mapping[str, str] | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> tuple[Self, list[str]]:
        """Check the options of one read; give them, and a line for each that changes nothing."""
        options, storage = split_storage(given)
        path = path_of(options)
        lines = check_read(options)
        query = options.get(_QUERY) or options.get(_VIEW) or "snapshot"
        mode = canonical(_QUERY, _VIEWS.get(query.lower(), query)).lower()
        since, until, as_of = options.get(_BEGIN), options.get(_END), options.get(AS_OF)
        if mode != "incremental":
            _refuse_beside(options, mode, (_BEGIN, _END, _FORMAT))
            since = until = None
        else:
            _refuse_beside(options, mode, (AS_OF,))
            if since is None:
                raise OptionError(f"option {_QUERY}=incremental: want {_BEGIN} with it")
            if _EARLIEST.fullmatch(since):
                since = "earliest"
            if options.get(_FORMAT, "latest_state").lower() == "cdc":
                mode = "cdc"
                _refuse_beside(options, mode, (_WHERE,))
        pushdown = options.get(_PUSHDOWN, "false").lower() == "true"
        where = options.get(_WHERE)
        return cls(path, mode, as_of, since, until, where, pushdown, storage or None), lines


def path_of(options: Mapping[str, str]) -> str:
    """Return the one path of a read or a write."""
    if "paths" in options:
        raise InvalidError("a lakebed table is one folder: want load(path), found several paths")
    path = options.get("path")
    # Spark puts the owner there where a table of its catalogue is made, whose options get lost later.
    if not path or "owner" in options:
        raise InvalidError(
            "format lakebed: want the path of a table with each read and write: load(path), save(path) or "
            "OPTIONS (path '...'). CREATE TABLE ... USING lakebed does not hand its options to a "
            "Python data source: use CREATE TEMPORARY VIEW ... USING lakebed OPTIONS (path '...'), "
            "or add WITH (path='...') to each statement"
        )
    return path


def _refuse_beside(options: Mapping[str, str], mode: str, names: tuple[str, ...]) -> None:
    for name in names:
        if name in options and options[name].lower() != "latest_state":
            raise OptionError(f"option {name} does not go with {_QUERY}={mode}")
