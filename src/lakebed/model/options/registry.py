"""All options by any of their names, and the check of a caller's options against them."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from lakebed.errors import OptionError
from lakebed.model.options import data_source, hudi, services, table, writers
from lakebed.model.options.option import Fate, Option, Scope, Settings, options_of

AnyOption = Option[Any]


def _entries() -> Iterator[AnyOption]:
    for module in (table, writers, services, data_source, hudi):
        for held in vars(module).values():
            if isinstance(held, Option):
                yield held
            elif isinstance(held, tuple):
                yield from (one for one in held if isinstance(one, Option))
            elif isinstance(held, type) and issubclass(held, Settings) and held is not Settings:
                yield from options_of(held).values()


OPTIONS: Final[Mapping[str, AnyOption]] = {option.name: option for option in _entries()}
"""Every option by its name."""
_BY_ANY_NAME: Final = {name: option for option in OPTIONS.values() for name in option.all_names}
_FAMILIES: Final = tuple(option for option in OPTIONS.values() if option.family)


@dataclass(frozen=True, slots=True)
class Given:
    """The options that a caller gave: values to store and names used, by the option's main name.

    `lines` are log messages for options that have no effect.
    """

    values: Mapping[str, str]
    names: Mapping[str, str]
    lines: tuple[str, ...]

    @property
    def stored(self) -> dict[str, str]:
        """Return the options that a table stores, with their values."""
        return {name: value for name, value in self.values.items() if get_option(name).is_stored}

    def of_family(self, option: AnyOption) -> dict[str, str]:
        """Return the values of a family of options, by name without the family's prefix."""
        found = {
            name: value for name, value in self.values.items() if name.startswith(option.family)
        }
        return {name.removeprefix(option.family): value for name, value in found.items()}


def find_option(name: str) -> AnyOption | None:
    """Return the option with this name or alias; None if the name is unknown.

    A member of a family is returned as the family's option with the member's name.
    """
    found = _BY_ANY_NAME.get(name)
    if found is not None:
        return found
    family = next((one for one in _FAMILIES if name.startswith(one.family)), None)
    return None if family is None else replace(family, name=name)


def get_option(name: str) -> AnyOption:
    """Return the option with this name or alias, which must be known."""
    option = find_option(name)
    assert option is not None, name
    return option


def changeable(name: str) -> AnyOption:
    """Return the option with this name; raise OptionError if it cannot be changed."""
    option = _taken(name, Scope.LATER)
    assert option is not None, name
    return option


def check_given(given: Mapping[str, str], place: Scope) -> Given:
    """Check the options that a caller gives at `place`.

    Raises OptionError for an option that is unknown or not supported.
    """
    values: dict[str, str] = {}
    names: dict[str, str] = {}
    lines = []
    for name, text in given.items():
        if not isinstance(name, str):
            raise OptionError(f"option {name!r}: expected a name as a string")
        option = _taken(name, place)
        if option is None:
            continue
        value = option.check(name, text)
        if option.fate is Fate.IGNORED:
            tail = f" ({option.effect})" if option.effect else ""
            lines.append(f"option {name}={text} has no effect here{tail}")
        main = option.name
        if values.setdefault(main, value) != value:
            raise OptionError(
                f"options {names[main]}={values[main]} and {name}={value} set the same option: "
                "use one of them"
            )
        names.setdefault(main, name)
    return Given(values, names, tuple(lines))


def _taken(name: str, place: Scope) -> AnyOption | None:
    """Return the option with this name; raise OptionError if it is not accepted at `place`.

    Returns None for an option of reads in a write, and vice versa: these are ignored.
    """
    option = find_option(name)
    if option is None:
        raise OptionError(_unknown(name, place))
    scope = option.subject.scope
    if place is Scope.WRITE:
        return option if scope & (Scope.WRITE | Scope.CREATE) else None
    if place in scope and name not in option.write_names:
        return option
    if place is Scope.READ:
        return None
    if place is Scope.OPEN:
        raise OptionError(
            f"option {name}: open_table takes {hudi.METADATA_TABLE.name} only; a table keeps its own "
            "settings, see set_properties"
        )
    if Scope.CREATE not in scope:
        raise OptionError(f'option {name}: for reads and writes of format("lakebed"), not a table')
    if name in option.write_names:
        raise OptionError(f"unknown option {name!r}; did you mean {option.name}?")
    raise OptionError(f"option {name}: cannot be changed after the table was created")


def _unknown(name: str, place: Scope) -> str:
    known = [
        known
        for known, option in _BY_ANY_NAME.items()
        if place in (Scope.READ, Scope.WRITE)
        or (Scope.CREATE in option.subject.scope and known not in option.write_names)
    ]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else "; docs/options.md lists all options"
    return f"unknown option {name!r}{hint}"
