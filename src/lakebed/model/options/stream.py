"""Parse the options of `readStream` and `writeStream` of `format("lakebed")`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from lakebed.errors import OptionError
from lakebed.model.options import data_source as of
from lakebed.model.options.option import Option, Scope
from lakebed.model.options.read import path_of
from lakebed.model.options.registry import Given, check_given

_LATEST: Final = "latest"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one micro-batch reads; 0 means no limit."""

    commits: int = 0
    rows: int = 0
    size_bytes: int = 0

    def __bool__(self) -> bool:
        """Return whether there is a limit."""
        return bool(self.commits or self.rows or self.size_bytes)


@dataclass(frozen=True, slots=True)
class StreamReadOptions:
    """The options of a stream from a table.

    `start` is earliest, latest or a point in time. With `cdc` the stream consists of change rows.
    """

    path: str
    cdc: bool = False
    start: str = "earliest"
    limits: Limits = Limits()
    fails_on_loss: bool = True
    where: str | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def starts_latest(self) -> bool:
        """Return whether a new query starts with the next commit."""
        return self.start.lower() == _LATEST

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> tuple[Self, tuple[str, ...]]:
        """Parse the options of a stream; also return a log line for each that has no effect."""
        options = {str(name).lower(): value for name, value in given.items()}
        path = path_of(options)
        checked = check_given(options, Scope.READ)
        held = checked.values
        cdc = is_change_read(checked)
        _refuse(held, f"a stream starts at {of.START.name}", of.AS_OF, of.BEGIN, of.END)
        if (held.get(of.QUERY.name) or held.get(of.VIEW.name)) == "read_optimized":
            raise OptionError(f"option {of.QUERY.name}=read_optimized: a stream reads every commit")
        if cdc:
            _refuse(held, f"with {of.FORMAT.name}=cdc, filter the change rows", of.WHERE)
        start = of.START.value(held).strip()
        return cls(
            path,
            cdc,
            start.lower() if start.lower() in (_LATEST, "earliest") else start,
            Limits(of.MAX_COMMITS.value(held), of.MAX_ROWS.value(held), of.MAX_BYTES.value(held)),
            of.FAIL_ON_LOSS.value(held),
            held.get(of.WHERE.name),
            checked.of_family(of.STORAGE) or None,
        ), checked.lines


@dataclass(frozen=True, slots=True)
class StreamWriteOptions:
    """The options by which a stream into a table is recognized after a restart."""

    stream_id: str = ""
    checkpoint: str = ""
    writer: str = of.STREAM_WRITER.kind.default

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Parse the options of a stream; the other options of the write are not checked."""
        options = {str(name).lower(): str(value) for name, value in given.items()}
        return cls(
            of.STREAM_ID.value(options),
            of.STREAM_CHECKPOINT.value(options),
            of.STREAM_WRITER.value(options),
        )


def is_change_read(checked: Given) -> bool:
    """Return whether the options select change rows."""
    held = checked.values
    mode = held.get(of.QUERY.name) or held.get(of.VIEW.name)
    cdc = of.FORMAT.value(held) == "cdc"
    if cdc and mode != "incremental":
        raise OptionError(f"option {of.FORMAT.name}=cdc needs {of.QUERY.name}=incremental")
    return cdc


def _refuse(held: Mapping[str, str], why: str, *options: Option[str]) -> None:
    for option in options:
        if held.get(option.name):
            raise OptionError(f"option {option.name} cannot be given for a stream: {why}")
