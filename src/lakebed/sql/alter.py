"""ALTER TABLE."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlglot.tokens import TokenType

from lakebed.api.table import Table
from lakebed.errors import InvalidError, OptionError
from lakebed.model.options import table as table_options
from lakebed.sql.session import Session
from lakebed.sql.syntax.columns import name_list, parse_properties, property_name
from lakebed.sql.syntax.partitions import parse_partition, partition_values
from lakebed.sql.syntax.words import Words

_GROUPS: Final = (table_options.COLUMN_GROUP.family, table_options.COLGROUP.family)


def alter(session: Session, words: Words) -> Any:
    """Execute ALTER TABLE."""
    name = words.names("the name of a table")
    table = session.table(name)
    title = ".".join(name)
    actions: Mapping[str, Callable[[Table, Words], str]] = {
        "SET": _set,
        "UNSET": _unset,
        "ADD": _add,
        "DROP": _drop,
        "ALTER": _change,
        "CHANGE": _change,
        "MODIFY": _change,
        "RENAME": _rename,
    }
    for word, action in actions.items():
        if words.take(word):
            return session.done(f"table {title}: {action(table, words)}")
    raise words.wrong(
        "expected SET TBLPROPERTIES, UNSET TBLPROPERTIES, ADD COLUMNS, DROP COLUMNS or ALTER COLUMN",
        list(actions),
    )


def _set(table: Table, words: Words) -> str:
    words.expect("TBLPROPERTIES")
    given = parse_properties(words)
    words.end()
    groups = {name: group for name in given if (group := _group(name)) is not None}
    if not groups:
        table.set_properties(given)
        return f"set {', '.join(given)}"
    _check_alone(groups, given)
    (name,) = groups
    table.add_column_group(groups[name], given[name])
    return f"added the column group {groups[name]}"


def _unset(table: Table, words: Words) -> str:
    words.expect("TBLPROPERTIES")
    if_exists = words.take("IF", "EXISTS")
    names = []
    words.expect_sign(TokenType.L_PAREN, "(")
    while True:
        names.append(property_name(words))
        if not words.take_sign(TokenType.COMMA):
            break
    words.expect_sign(TokenType.R_PAREN, ")")
    words.end()
    groups = {name: group for name in names if (group := _group(name)) is not None}
    if not groups:
        table.unset_properties(names, if_exists=if_exists)
        return f"unset {', '.join(names)}"
    _check_alone(groups, names)
    table.drop_column_group(groups[names[0]])
    return f"dropped the column group {groups[names[0]]}"


def _add(table: Table, words: Words) -> str:
    if not words.take("COLUMNS"):
        words.expect("COLUMN")
    if words.here is not None and words.here.text == "(":
        begin, end = words.parenthesized()
    else:
        begin, end = words.until([])
    words.end()
    before = set(table.schema.names)
    table.add_columns(words.text[begin:end])
    return f"added {', '.join(name for name in table.schema.names if name not in before)}"


def _drop(table: Table, words: Words) -> str:
    if words.take("PARTITION"):
        given = partition_values(parse_partition(words))
        words.end()
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise InvalidError(f"DROP PARTITION: column {missing[0]!r} has no value")
        table.delete_partitions([given])
        return "dropped a partition"
    if not words.take("COLUMNS"):
        words.expect("COLUMN")
    if_exists = words.take("IF", "EXISTS")
    is_list = words.here is not None and words.here.text == "("
    names = name_list(words) if is_list else [words.name("a column")]
    words.end()
    spelled = {known.lower(): known for known in table.schema.names}
    names = [spelled.get(name.lower(), name) for name in names]
    if if_exists:
        names = [name for name in names if name in table.schema.names]
    table.check_droppable(names)
    for name in names:
        table.drop_column(name)
    return f"dropped {', '.join(names) or 'no column'}"


def _change(table: Table, words: Words) -> str:
    words.take("COLUMN")
    name = words.name("a column")
    spelled = {known.lower(): known for known in table.schema.names}
    name = spelled.get(name.lower(), name)
    if not words.take("TYPE"):
        if words.is_word("SET", "DROP", "COMMENT", "FIRST", "AFTER"):
            raise words.wrong(
                "only the type of a column can be changed: ALTER COLUMN c TYPE t, not"
            )
        again = words.name("TYPE, or the column's name again")
        if again.lower() != name.lower():
            table.rename_column(name, again)
    begin, end = words.until([("COMMENT",)])
    if words.take("COMMENT"):
        words.string("a comment")
    words.end()
    table.widen_column(name, words.text[begin:end])
    return f"column {name} is {words.text[begin:end]}"


def _rename(table: Table, words: Words) -> str:
    if words.take("COLUMN"):
        old = words.name("a column")
        words.expect("TO")
        table.rename_column(old, words.name("a column"))
    raise InvalidError(
        f"table {table.name!r} cannot be renamed: its name is stored in its properties, and in the "
        "schema of every file; move the folder with the tools of your storage, and register it: "
        "CREATE TABLE new_name USING lakebed LOCATION '...'"
    )


def _group(name: str) -> str | None:
    """Return the column group that a property defines; None for another property."""
    for family in _GROUPS:
        if name.startswith(family):
            return name.removeprefix(family)
    return None


def _check_alone(groups: Mapping[str, str], given: object) -> None:
    if len(groups) > 1 or len(list(given)) > 1:  # type: ignore[call-overload]
        raise OptionError(
            "a column group is added or dropped by a commit of its own: name one column group in a "
            f"statement and nothing else, found {', '.join(given)}"  # type: ignore[arg-type]
        )
