"""Finds base files that Spark's own Parquet reader reads like Hudi and Lakebed do.

Spark takes a column's type from the table and converts the file's values. It widens a float
numerically, where Hudi uses its decimal string, and rejects numbers where the table has strings.
The types of a file are only in its footer: the schema in its commit may differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.storage.storage import Storage
from lakebed.table.config.schema import find_field
from lakebed.table.files.file_group import BaseFile
from lakebed.table.read.base_file import read_footer

_HELD = 100_000
_WIDENED_ALIKE = (pa.int8(), pa.int16(), pa.int32(), pa.float64())


def shows_alike(storage: Storage, file: BaseFile, fields: Sequence[pa.Field]) -> bool:
    """Return whether Spark reads the columns `fields` of a local base file as Lakebed does.

    A footer is read once: files never change.
    """
    doubtful = tuple(
        (field.name, field.type)
        for field in fields
        if field.name not in META_COLUMNS and _is_doubtful(field.type)
    )
    place = storage.local_path(file.path)
    return not doubtful or _look(_Asked(str(place), doubtful, storage, file.path))


@dataclass(frozen=True, slots=True)
class _Asked:
    place: str
    columns: tuple[tuple[str, pa.DataType], ...]
    storage: Storage = field(compare=False)
    path: str = field(compare=False)


@lru_cache(_HELD)
def _look(asked: _Asked) -> bool:
    present = list(read_footer(asked.storage, asked.path).schema)
    found = [(find_field(present, name), kind) for name, kind in asked.columns]
    return all(at is None or _is_alike(present[at].type, kind) for at, kind in found)


def _is_doubtful(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_is_doubtful(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _is_doubtful(kind.value_type)
    if pa.types.is_map(kind):
        return _is_doubtful(kind.item_type)
    return kind in (pa.float32(), pa.float64(), pa.string())


def _is_alike(stored: pa.DataType, kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind) and pa.types.is_struct(stored):
        fields = list(stored)
        found = [(find_field(fields, field.name), field.type) for field in kind]
        return all(at is None or _is_alike(fields[at].type, inner) for at, inner in found)
    if pa.types.is_list(kind) and pa.types.is_list(stored):
        return _is_alike(stored.value_type, kind.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(stored):
        return _is_alike(stored.item_type, kind.item_type)
    if kind == pa.float64():
        return stored in _WIDENED_ALIKE
    if kind == pa.float32():
        return bool(stored == kind)
    return kind != pa.string() or not pa.types.is_primitive(stored)
