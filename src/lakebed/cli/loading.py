"""Commands that make a table and load files into it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path as File
from typing import Annotated, BinaryIO

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
import typer

from lakebed.api.opening import create_table
from lakebed.cli.answer import answering
from lakebed.cli.arguments import Debug, Json, Path, Settings, opened, pairs
from lakebed.errors import InvalidError, NotFoundError, SchemaError
from lakebed.model.executor import Report
from lakebed.terminal.progress import DISPLAY


@dataclass(frozen=True, slots=True)
class InputFile:
    """The rows of a file; `total` counts its rows or, if there is a `position`, its bytes."""

    stream: pa.RecordBatchReader
    total: int
    position: Callable[[], int] | None


FORMATS = ("parquet", "csv", "json")
_ENDINGS = {"pq": "parquet", "tsv": "csv", "jsonl": "json", "ndjson": "json"}
_OPERATIONS = ("upsert", "insert", "bulk_insert")

Format = Annotated[
    str | None, typer.Option("--format", help="parquet, csv or json; by default, by the name.")
]


def create(
    path: Path,
    key: Annotated[str, typer.Option("--key", help="The key columns, separated by commas.")],
    schema: Annotated[
        str | None, typer.Option("--schema", help='The columns: "id BIGINT, name STRING".')
    ] = None,
    like: Annotated[
        str | None, typer.Option("--like", help="A file whose columns the table gets.")
    ] = None,
    ordering: Annotated[str | None, typer.Option("--ordering", help="The ordering column.")] = None,
    partition_by: Annotated[
        str | None, typer.Option("--partition-by", help="The partition columns.")
    ] = None,
    layout: Annotated[
        list[str] | None,
        typer.Option("--with", help="table_type=, index=, buckets= or an option of the table."),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Create an empty table."""
    with answering(as_json=as_json, debug=debug) as answer:
        if (schema is None) == (like is None):
            raise InvalidError("create: pass either --schema or --like")
        columns: object = schema
        if like is not None:
            with opened_file(like, None, None) as given_file:
                columns = given_file.stream.schema
        given = dict(pairs(layout) or {})
        made = {
            name: given.pop(name) for name in ("table_type", "index", "buckets") if name in given
        }
        table = create_table(
            None,
            path,
            columns,
            key=_names(key),
            ordering=None if ordering is None else _names(ordering),
            partition_by=() if partition_by is None else _names(partition_by),
            table_type=made.get("table_type", "MERGE_ON_READ"),
            index=made.get("index", "bucket"),
            buckets=_number(made.get("buckets", "auto")),
            properties=given,
        )
        answer.give(table.describe())


def load(
    path: Path,
    file: Annotated[str, typer.Argument(help="A file of Parquet, CSV or JSON lines.")],
    operation: Annotated[
        str, typer.Option("--operation", help="upsert, insert or bulk_insert.")
    ] = "upsert",
    format_: Format = None,
    evolve: Annotated[
        bool, typer.Option("--evolve", help="Add new columns to the table, and widen types.")
    ] = False,
    fill_missing: Annotated[
        bool, typer.Option("--fill-missing", help="Write nulls to columns the file lacks.")
    ] = False,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the rows of a file to the table, as one commit."""
    with answering(as_json=as_json, debug=debug) as answer:
        if operation not in _OPERATIONS:
            raise InvalidError(f"--operation {operation}: expected one of {', '.join(_OPERATIONS)}")
        table = opened(path, options)
        write = getattr(table, operation)
        with opened_file(file, format_, table.schema) as given:
            with DISPLAY.show(f"load {File(file).name}", given.total) as report:
                batches = _reported(given, report)
                rows = pa.RecordBatchReader.from_batches(given.stream.schema, batches)
                commit = write(rows, evolve=evolve, fill_missing=fill_missing)
            answer.give(commit)


@contextmanager
def opened_file(name: str, format_: str | None, schema: pa.Schema | None) -> Iterator["InputFile"]:
    """Open a file as a stream of rows; `schema` has the types of columns that it names."""
    path = File(name)
    if not path.is_file():
        raise NotFoundError(f"{name}: no such file")
    ending = path.suffix.lower().removeprefix(".")
    kind = format_ or _ENDINGS.get(ending, ending)
    if kind not in FORMATS:
        raise InvalidError(
            f"{name}: expected a file of {', '.join(FORMATS)}, found {kind or 'no ending'!r}; "
            "name its format by --format"
        )
    try:
        with path.open("rb") as source:
            yield _input(source, kind, schema, tabs=ending == "tsv")
    except pa.ArrowInvalid as error:
        raise SchemaError(f"{name}: not valid {kind}: {error}") from error


def _input(source: BinaryIO, kind: str, schema: pa.Schema | None, *, tabs: bool) -> InputFile:
    if kind == "parquet":
        file = pq.ParquetFile(source)
        rows = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        return InputFile(rows, file.metadata.num_rows, None)
    size = source.seek(0, SEEK_END)
    source.seek(0)
    stream = _text_stream(source, kind, schema, tabs=tabs)
    return InputFile(stream, size, source.tell)


def _text_stream(
    source: BinaryIO, kind: str, schema: pa.Schema | None, *, tabs: bool
) -> pa.RecordBatchReader:
    types = {} if schema is None else {field.name: field.type for field in schema}
    if kind == "csv":
        return pc.open_csv(
            source,
            parse_options=pc.ParseOptions(delimiter="\t" if tabs else ",", newlines_in_values=True),
            convert_options=pc.ConvertOptions(column_types=types),
        )
    explicit = None if schema is None else pa.schema(list(types.items()))
    return pj.open_json(source, parse_options=pj.ParseOptions(explicit_schema=explicit))


def _reported(given: InputFile, report: Report | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file; report how far it has been read."""
    done = 0
    for batch in given.stream:
        yield batch
        done += batch.num_rows
        if report is not None:
            report(done if given.position is None else given.position())


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
