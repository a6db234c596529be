"""The parts of an option: its names, its kind of value, where it may be given, and its effect."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, Flag, StrEnum, auto
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, cast

from lakebed.errors import OptionError

LARGE: Final = 10**18 - 1
"""The upper bound of sizes in bytes."""
_MOST: Final = 10**9 - 1
_BYTES: Final = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_UNIT_MS: Final = {"d": 24 * 3_600_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DURATION: Final = re.compile(r"([0-9]{1,9}) ?(d|days?|h|hours?|m|minutes?|s|seconds?)")

T = TypeVar("T")
Member = TypeVar("Member", bound=StrEnum)


class Fate(Enum):
    """How an option is treated."""

    HONOURED = "supported"
    FIXED = "accepted with this value only"
    IGNORED = "accepted, no effect here"
    REFUSED = "rejected"


class Scope(Flag):
    """Where an option may be given."""

    CREATE = auto()  # when a table is created, or for one call of a service
    LATER = auto()  # to `set_properties`, or to a later write, which stores it in the table
    OPEN = auto()  # to `open_table`
    READ = auto()
    WRITE = auto()
    ANYWHERE = CREATE | LATER | READ | WRITE


@dataclass(frozen=True, slots=True)
class Subject:
    """A group of options, and where they may be given."""

    title: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of value: `parse` returns None for an invalid string; `wanted` describes valid ones.

    `words` are the valid values, if there are only a few.
    """

    default: T
    wanted: str
    parse: Callable[[str], T | None]
    words: tuple[str, ...] = ()

    def spell(self, given: str) -> str:
        """Return a word in Hudi's spelling, and any other string unchanged."""
        if not self.words:
            return given
        found = self.parse(given.strip())
        return str(found).lower() if isinstance(found, bool) else str(found)


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option. `effect` is its effect, or why it is not supported, as a phrase for users.

    `aliases` are older names. `write_names` are names of a table property in writes of
    `format("lakebed")`. `keyword` is the equivalent argument of `create_table`.
    """

    name: str
    subject: Subject
    kind: Kind[T]
    effect: str = ""
    aliases: tuple[str, ...] = ()
    write_names: tuple[str, ...] = ()
    keyword: str = ""
    fate: Fate = Fate.HONOURED
    # Hudi stores merge options under this prefix.
    prefix: str = ""

    @property
    def all_names(self) -> tuple[str, ...]:
        """Return all names, the main one first."""
        return (self.name, *self.aliases, *self.write_names)

    @property
    def family(self) -> str:
        """Return the prefix of a family of options, such as `lakebed.storage.`; '' for others."""
        return self.name.removesuffix("<name>") if self.name.endswith(".<name>") else ""

    @property
    def stored_name(self) -> str:
        """Return the table property that stores the option."""
        return self.prefix + self.name

    @property
    def is_stored(self) -> bool:
        """Return whether the option is stored as a table property."""
        return Scope.CREATE in self.subject.scope and self.fate in (Fate.HONOURED, Fate.FIXED)

    @property
    def is_changeable(self) -> bool:
        """Return whether the option of an existing table can be changed."""
        return Scope.LATER in self.subject.scope

    def value(self, properties: Mapping[str, str]) -> T:
        """Return the value of the first of the option's names that is set, or the default.

        Raises OptionError if the value is invalid.
        """
        for name in (self.stored_name, self.name, *self.aliases):
            text = properties.get(name, "").strip()
            if text:
                return self._parse(name, text)
        return self.kind.default

    def check(self, name: str, text: object) -> str:
        """Return the value given under `name` in its stored form; raise OptionError if invalid."""
        if self.fate is Fate.REFUSED:
            raise OptionError(f"option {name} cannot be given: {self.effect}")
        if not isinstance(text, str):
            raise OptionError(
                f"option {name}: expected a string, found {type(text).__name__} {text!r}"
            )
        if text.strip() or self.kind.words:
            self._parse(name, text.strip())
        return self.kind.spell(text)

    def _parse(self, name: str, text: str) -> T:
        found = self.kind.parse(text)
        if found is None:
            tail = f" ({self.effect})" if self.effect and self.kind.words else ""
            raise OptionError(f"option {name}={text}: expected {self.kind.wanted}{tail}")
        return found


def listed(
    subject: Subject, fate: Fate, kind: Kind[T], names: Mapping[str, str]
) -> tuple[Option[T], ...]:
    """Return options with the same subject, fate and kind; `names` maps effects to names.

    In a list of names, `hoodie.parquet:` adds the prefix `hoodie.parquet.` to those after it.
    """
    found = []
    for effect, ends in names.items():
        prefix = ""
        for end in ends.split():
            if end.endswith(":"):
                prefix = f"{end[:-1]}."
            else:
                found.append(Option(prefix + end, subject, kind, effect, fate=fate))
    return tuple(found)


class Settings:
    """Options that one consumer uses together: a frozen dataclass with `setting`s as fields."""

    __slots__ = ()
    subject: ClassVar[Subject]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Parse `properties`; raise OptionError for an invalid value."""
        return cls(**{name: option.value(properties) for name, option in options_of(cls).items()})


def setting(name: str, kind: Kind[T], effect: str, aliases: tuple[str, ...] = ()) -> T:
    """Declare a field of `Settings` for an option."""
    return field(default=kind.default, metadata={"option": (name, kind, effect, aliases)})


def options_of(settings: type[Settings]) -> dict[str, Option[Any]]:
    """Return the options of a `Settings` class, by field."""
    declared = {one.name: one.metadata.get("option") for one in fields(cast("Any", settings))}
    return {
        name: Option(option[0], settings.subject, *option[1:])
        for name, option in declared.items()
        if option is not None
    }


def text(default: str = "") -> Kind[str]:
    """Return a kind that accepts any string."""
    return Kind(default, "text", str)


def folder(default: str) -> Kind[str]:
    """Return a kind that accepts the relative path of a folder."""
    wanted = "a relative path of letters, digits, '-', '_' and '.', its folders separated by '/'"
    return Kind(default, wanted, _folder)


def names() -> Kind[tuple[str, ...]]:
    """Return a kind that accepts names, separated by commas."""
    return Kind((), "names, separated by commas", parse_names)


def word(*words: str, default: str = "", same: Mapping[str, str] | None = None) -> Kind[str]:
    """Return a kind that accepts a few words; `same` maps words to those stored instead."""
    return _one_of(default, {one: (same or {}).get(one, one) for one in words})


def member(default: Member) -> Kind[Member]:
    """Return a kind that accepts the values of an enumeration."""
    return _one_of(default, {str(one): one for one in type(default)})


def flag(*, default: bool) -> Kind[bool]:
    """Return a kind that accepts true and false."""
    return _one_of(default, {"true": True, "false": False})


def _one_of(default: T, words: Mapping[str, T]) -> Kind[T]:
    found = {word.lower(): value for word, value in words.items()}
    return Kind(default, " or ".join(words), lambda given: found.get(given.lower()), tuple(words))


def number(default: int, least: int = 0, most: int = _MOST) -> Kind[int]:
    """Return a kind that accepts whole numbers between two bounds."""
    wanted = f"a whole number from {least} to {most}"
    return Kind(default, wanted, lambda given: parse_whole_number(given, least, most))


def ratio(default: float) -> Kind[float]:
    """Return a kind that accepts a finite number of at least 0."""
    return Kind(default, "a number, 0 or greater", _ratio)


def probability(default: float) -> Kind[float]:
    """Return a kind that accepts a number between 0 and 1, exclusive."""

    def parse(given: str) -> float | None:
        found = _ratio(given)
        return found if found is not None and 0 < found < 1 else None

    return Kind(default, "a number between 0 and 1", parse)


def size(default: int, least: int = 1) -> Kind[int]:
    """Return a kind that accepts a size in bytes, which may have a unit: `10MB`."""

    def parse(given: str) -> int | None:
        match = re.fullmatch(r"([0-9]{1,12})(|KB|MB|GB)", given.upper())
        return int(match[1]) * _BYTES[match[2]] if match and int(match[1]) >= least else None

    return Kind(default, "a number of bytes, or one with KB, MB or GB", parse)


def duration(default_ms: int, zero: str) -> Kind[int]:
    """Return a kind that accepts a duration, in milliseconds; `zero` describes what 0 means."""
    wanted = f"a number and a unit, such as '7 days', '12 hours' or '30 minutes', or 0 {zero}"
    return Kind(default_ms, wanted, _duration)


def parse_names(given: str) -> tuple[str, ...]:
    """Parse names, separated by commas."""
    return tuple(name.strip() for name in given.split(",") if name.strip())


def parse_whole_number(given: str, least: int = 0, most: int = _MOST) -> int | None:
    """Parse a whole number between two bounds; return None for any other string."""
    # Check the length first, because `int` raises an error for very long numbers.
    if not (given.isascii() and given.isdigit() and len(given) <= len(str(most))):
        return None
    return int(given) if least <= int(given) <= most else None


def _folder(given: str) -> str | None:
    parts = given.strip("/").split("/")
    valid = all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", part, re.ASCII) for part in parts)
    return "/".join(parts) if valid else None


def _ratio(given: str) -> float | None:
    try:
        found = float(given)
    except ValueError:
        return None
    return found if 0 <= found < float("inf") else None


def _duration(given: str) -> int | None:
    if given == "0":
        return 0
    match = _DURATION.fullmatch(given.lower())
    return int(match[1]) * _UNIT_MS[match[2][0]] if match else None
