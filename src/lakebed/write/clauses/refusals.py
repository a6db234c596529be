"""The errors of merges whose result would be ambiguous or would not be visible."""

from collections.abc import Sequence

from lakebed.errors import InvalidError


def key_text(key: dict[str, object]) -> str:
    """Return a key for an error message."""
    return ", ".join(f"{name}={value!r}" for name, value in key.items())


def several_match(key: str, count: int) -> InvalidError:
    """Return the error for a target row that several source rows would change."""
    return InvalidError(
        f"merge: {count} source rows match the target row with key {key} and would change it; the "
        "result would depend on their order. Make the source rows unique, or the condition stricter"
    )


def repeated(key: str, count: int) -> InvalidError:
    """Return the error for two rows with the same key."""
    return InvalidError(
        f"merge: {count} source rows have the key {key}; a key identifies one row of the table. Make "
        "the source rows unique"
    )


def exists(key: str) -> InvalidError:
    """Return the error for an inserted row whose key is in the table."""
    return InvalidError(
        f"merge: a row to insert has the key {key} of a row of the table that does not match the "
        "condition; join on the key columns, or leave such rows out by a condition"
    )


def lowered(clause: str, key: str, rules: Sequence[Sequence[str]]) -> InvalidError:
    """Return the error for an update that lowers an ordering value."""
    columns = ", ".join(name for rule in rules for name in rule)
    return InvalidError(
        f"{clause}: the new ordering value ({columns}) of the row with key {key} is lower than its "
        "present one, so readers would keep the present row; leave such rows out by a condition, or "
        "assign a higher value"
    )
