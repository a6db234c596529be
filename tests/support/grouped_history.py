"""Random histories of a table with column groups, done to a table and to its model alike."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import lakebed
from lakebed.api.table import Table
from support.grouped import GroupedModel, Groups, Row
from support.tables import make

KEYS = 12
MARK = "_hoodie_is_deleted"
WRITES = ("full", "some", "update", "change", "delete", "flag", "flag some")
SERVICES = (
    "full compaction",
    "log compaction",
    "hybrid",
    "plan",
    "clean",
    "widen",
    "plan to widen",
)
ALTERS = ("add", "drop", "undo")
_TEXT = ("name", "band")
_ORDER = ("ts", "scored_at")
_FIELDS = {"": ("ts", "name", "n"), "risk": ("score", "band", "scored_at"), "ab": ("a", "b")}


@dataclass
class GroupedHistory:
    """A table and its model; `past` has the model after each instant.

    If it `alters` nothing, groups are neither added nor dropped, and no write is undone.
    """

    seed: int
    alters: bool = True
    rng: np.random.Generator = field(init=False)
    model: GroupedModel = field(init=False)
    table: Table = field(init=False)
    past: list[tuple[str, GroupedModel]] = field(default_factory=list)
    done: list[object] = field(default_factory=list)
    orders: set[str] = field(default_factory=lambda: set(_ORDER))

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        ordering = "ts" if self.chance(0.7) else None
        own = "scored_at" if self.chance(0.6) else None
        columns = dict(_FIELDS)
        if self.chance(0.3):
            columns[""] = (*columns[""], *columns.pop("ab"))
        self.model = GroupedModel(
            Groups(columns, {g: own or ordering if g == "risk" else ordering for g in columns})
        )
        self.single = self.chance(0.75)
        mode = "SINGLE_WRITER" if self.single else "NON_BLOCKING_CONCURRENCY_CONTROL"
        fields = [name for of in _FIELDS.values() for name in of]
        self.table = make(
            schema=pa.schema([("id", pa.int64()), *((name, kind(name)) for name in fields)]),
            ordering=() if ordering is None else (ordering,),
            partition_by=(),
            table_type="MERGE_ON_READ",
            table_version=None,
            buckets=int(self.rng.integers(1, 3)),
            column_groups={
                name: ",".join(of) + (f";{own}" if name == "risk" and own else "")
                for name, of in columns.items()
                if name
            },
            properties={"hoodie.write.concurrency.mode": mode},
        )

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def step(self) -> None:
        """Do one thing, and note the instant that it led to."""
        others = (*SERVICES, *ALTERS) if self.alters else SERVICES
        what = str(self.rng.choice(WRITES if self.chance(0.75) else others))
        act: dict[str, Callable[[], object]] = {
            "delete": self._delete,
            "change": self._change,
            "add": self._add,
            "drop": self._drop,
            "undo": self._undo,
            "full compaction": self.table.compact,
            "log compaction": lambda: self.table.compact(mode="log"),
            "hybrid": lambda: self.table.compact(mode="hybrid"),
            "plan": self.table.schedule_compaction,
            "clean": self.table.clean,
            "widen": lambda: self.table.compact(widen=True),
            "plan to widen": lambda: self.table.schedule_compaction(widen=True),
        }
        self.done.append(what)
        act.get(what, lambda: self._write(what))()
        instants = self.table.history().column("instant").to_pylist()
        if instants:
            self.past.append((instants[0], self.model.copy()))

    def _write(self, what: str) -> None:
        groups = self.model.groups
        names = [name for of in groups.columns.values() for name in of]
        if what in ("some", "flag some"):
            count = int(self.rng.integers(1, len(groups.columns) + 1))
            picked = self.rng.choice(list(groups.columns), size=count, replace=False)
            names = [name for group in picked for name in groups.columns[group]]
        elif what == "update":
            names = [name for name in names if self.chance(0.35)] or [names[0]]
        reached = groups.columns if "flag" in what else groups.touched(names)
        for group in reached:
            order = groups.ordering[group]
            if order is not None and order not in names:
                names.append(order)
        if what != "update":
            for group in groups.touched(names):
                names += [name for name in groups.columns[group] if name not in names]
        rows = self.rows(names, flagged="flag" in what)
        self.done.append(rows)
        self.model.write(rows, deleted=MARK if "flag" in what else None)
        write = self.table.update_columns if what == "update" else self.table.upsert
        write(as_table(rows))

    def rows(self, names: list[str], *, flagged: bool) -> list[Row]:
        """Return a few rows with random values; every tenth is null, but for ordering values."""
        found = []
        for key in self._keys():
            row: Row = {"id": key, **{name: self._value(name) for name in names}}
            if flagged:
                row[MARK] = self.chance(0.4)
            found.append(row)
        return found

    def _keys(self) -> list[int]:
        count = int(self.rng.integers(1, 7))
        return [int(key) for key in self.rng.choice(KEYS, size=count, replace=False)]

    def _value(self, name: str) -> Any:
        if name in self.orders:
            return int(self.rng.integers(0, 8))
        if self.chance(0.1):
            return None
        number = int(self.rng.integers(100))
        return f"{name}{number}" if name in _TEXT else number

    def _delete(self) -> None:
        keys = self._keys()
        self.done.append(keys)
        self.model.delete(keys)
        self.table.delete([{"id": key} for key in keys])

    def _change(self) -> None:
        """Set columns of the rows that match a predicate, without new ordering values."""
        groups = self.model.groups
        free = [name for of in groups.columns.values() for name in of if name not in self.orders]
        values = {str(name): self._value(str(name)) for name in self.rng.choice(free, size=2)}
        owners = [name for name, of in groups.columns.items() if not values.keys().isdisjoint(of)]
        ordering = sorted({name for owner in owners if (name := groups.ordering[owner])})
        low = int(self.rng.integers(KEYS))
        where = " AND ".join([f"id >= {low}", *(f"{name} IS NOT NULL" for name in ordering)])
        found = self.model.rows()
        keys = [
            key
            for key, row in found.items()
            if row["id"] >= low and all(row[name] is not None for name in ordering)
        ]
        self.done.append((values, where))
        literals = {name: lakebed.lit(value) for name, value in values.items()}
        assert self.table.update(literals, where=where).updated == len(keys), self.done
        self.model.update(values, keys)

    def _add(self) -> None:
        number = len(self.done)
        name, columns = f"g{number}", (f"p{number}", f"q{number}", f"o{number}")
        own = columns[2] if self.chance(0.5) else None
        if own is not None:
            self.orders.add(own)
        fields = [pa.field(column, pa.int64()) for column in columns]
        self.table.add_column_group(name, fields, ordering=own)
        groups = self.model.groups
        self.model.groups = Groups(
            {**groups.columns, name: columns},
            {**groups.ordering, name: own or groups.ordering[""]},
        )
        self.model.versions[name] = {}

    def _drop(self) -> None:
        named = [name for name in self.model.groups.columns if name]
        if named:
            name = str(self.rng.choice(named))
            self.done.append(name)
            if any("plan" in str(what) for what in self.done):
                self.table.compact()  # a pending compaction must be executed before
            self.table.drop_column_group(name)
            self.model.drop(name)

    def _undo(self) -> None:
        """Roll the newest write back, if it is the newest instant and its like is allowed."""
        if not self.single or len(self.past) < 2 or self.past[-1][0] == self.past[-2][0]:
            return
        newest = self.table.history().slice(0, 1).to_pylist()[0]
        if newest["instant"] != self.past[-1][0] or newest["action"] != "deltacommit":
            return
        self.table.rollback(newest["instant"])
        self.past.pop()
        self.model = self.past[-1][1].copy()


def kind(name: str) -> pa.DataType:
    """Return the type of a column of these tables."""
    return pa.bool_() if name == MARK else pa.string() if name in _TEXT else pa.int64()


def as_table(rows: list[Row]) -> pa.Table:
    """Return the rows as Arrow, in the types of the table."""
    return pa.table({name: pa.array([row[name] for row in rows], kind(name)) for name in rows[0]})


def by_key(found: pa.Table) -> dict[str, Row]:
    """Return rows by their key, each of which occurs once."""
    rows = {str(row["id"]): row for row in found.to_pylist()}
    assert len(rows) == found.num_rows
    return rows
