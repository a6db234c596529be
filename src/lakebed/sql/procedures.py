"""CALL: the procedures, under Hudi's names.

A procedure takes its arguments by name (`table => 't'`) or by position, in the order of `names`. The
table is `table => 'name'`, or `path => '/data/t'`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from sqlglot.tokens import TokenType

from lakebed.api.table import Table
from lakebed.errors import InvalidError
from lakebed.model.spelling import listed, nearest
from lakebed.sql import reports
from lakebed.sql.query.tables import table_parts
from lakebed.sql.session import Session
from lakebed.sql.syntax.expressions import constant
from lakebed.sql.syntax.words import Words

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: what it does, its arguments, and the function that executes it.

    `required` are arguments without a default. `before` are arguments that precede the table.
    """

    effect: str
    arguments: Sequence[str]
    run: Callable[[Table, Arguments], pa.Table]
    required: Sequence[str] = ()
    before: Sequence[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the arguments, in the order in which they are given by position."""
        return (*self.before, "table", *self.arguments)


def call(session: Session, words: Words) -> Any:
    """Execute CALL."""
    name = words.names("the name of a procedure")[-1].lower()
    if name == "help":
        return session.result(show_procedures())
    procedure = PROCEDURES.get(name)
    if procedure is None:
        raise InvalidError(
            f"CALL: unknown procedure {name!r}{nearest(name, PROCEDURES)}; "
            "SHOW PROCEDURES lists all"
        )
    given = _parse(words, name, procedure)
    table, path = given.pop("table", None), given.pop("path", None)
    if (table is None) == (path is None):
        raise InvalidError(f"CALL {name}: expected table => 'name' or path => '/data/t'")
    for argument in procedure.required:
        if given.get(argument) is None:
            raise InvalidError(f"CALL {name}: the argument {argument} is missing")
    parts = ("lakebed", str(path)) if table is None else table_parts(str(table))
    return session.result(procedure.run(session.table(parts), given))


def show_procedures() -> pa.Table:
    """Return the procedures, their arguments and what they do."""
    return pa.table(
        {
            "procedure_name": list(PROCEDURES),
            "arguments": [", ".join(one.names) for one in PROCEDURES.values()],
            "description": [one.effect for one in PROCEDURES.values()],
        }
    )


def _parse(words: Words, name: str, procedure: Procedure) -> dict[str, Any]:
    words.expect_sign(TokenType.L_PAREN, "(")
    known = procedure.names
    found: dict[str, Any] = {}
    position = 0
    while not words.take_sign(TokenType.R_PAREN):
        argument = _argument_name(words)
        if argument is None:
            if position >= len(known):
                raise InvalidError(f"CALL {name}: expected at most {len(known)} arguments")
            argument = known[position]
        position += 1
        if argument not in (*known, "path"):
            raise InvalidError(
                f"CALL {name}: unknown argument {argument!r}{nearest(argument, (*known, 'path'))}; "
                f"expected {listed((*known, 'path'))}"
            )
        if argument in found:
            raise InvalidError(f"CALL {name}: the argument {argument} is given twice")
        begin, end = words.until([(",",), (")",)])
        found[argument] = constant(words.text[begin:end]).as_py()
        if not words.take_sign(TokenType.COMMA) and not words.is_sign(")"):
            raise words.wrong("expected ',' or ')'")
    words.end()
    return found


def _argument_name(words: Words) -> str | None:
    """Take the name of an argument and `=>`; return None for an argument by position."""
    at = words.at + 1
    if at < len(words.tokens) and words.tokens[at].token_type is TokenType.FARROW:
        name = words.name("the name of an argument").lower()
        words.at += 1
        return name
    return None


def _sentence(result: object, nothing: str) -> pa.Table:
    """Return the results of a service as rows of one sentence."""
    found = result if isinstance(result, tuple) else () if result is None else (result,)
    return pa.table({"result": pa.array([str(one) for one in found] or [nothing], pa.string())})


def _compaction(table: Table, given: Arguments) -> pa.Table:
    operation = str(given.get("op") or "scheduleandexecute").lower()
    instant = given.get("timestamp")
    if operation == "schedule":
        planned = table.schedule_compaction(options=_options(given))
        text = "nothing to compact" if planned is None else planned.instant.requested
        return pa.table({"result": [text]})
    if operation == "run":
        if instant is not None:
            return _sentence(table.compact(instant=str(instant)), "nothing to compact")
        pending = [row["instant"] for row in reports.pending(table, "compaction").to_pylist()]
        done = [one for instant in pending for one in table.compact(instant=instant)]
        return _sentence(tuple(done), "no pending compaction")
    if operation not in ("scheduleandexecute", "schedule_and_execute"):
        raise InvalidError(
            f"CALL run_compaction: op {operation!r}: expected schedule, run or scheduleAndExecute"
        )
    return _sentence(table.compact(options=_options(given)), "nothing to compact")


def _options(given: Arguments) -> dict[str, str]:
    """Parse Hudi's argument `options`: `'hoodie.a=1,hoodie.b=2'`."""
    found = {}
    for part in str(given.get("options") or "").split(","):
        name, equals, value = part.partition("=")
        if part.strip() and not equals:
            raise InvalidError(f"CALL: options {part!r}: expected name=value")
        if part.strip():
            found[name.strip()] = value.strip()
    return found


def _clean(table: Table, given: Arguments) -> pa.Table:
    options = _options(given)
    names = {
        "retain_commits": "hoodie.clean.commits.retained",
        "hours_retained": "hoodie.clean.hours.retained",
        "file_versions_retained": "hoodie.clean.fileversions.retained",
        "clean_policy": "hoodie.clean.policy",
    }
    options |= {names[key]: str(given[key]) for key in names if given.get(key) is not None}
    return _sentence(table.clean(options=options), "nothing to clean")


def _savepoint(table: Table, given: Arguments) -> pa.Table:
    instant = given.get("commit_time")
    made = table.savepoint(
        None if instant is None else str(instant),
        user=str(given.get("user") or ""),
        comment=str(given.get("comments") or ""),
    )
    return pa.table({"create_savepoint_result": [True], "instant_time": [made.instant]})


def _delete_savepoint(table: Table, given: Arguments) -> pa.Table:
    table.delete_savepoint(str(given["instant_time"]))
    return pa.table({"delete_savepoint_result": [True]})


def _restore(table: Table, given: Arguments) -> pa.Table:
    restored = table.restore(str(given["instant_time"]))
    return pa.table({"rollback_savepoint_result": [True], "result": [str(restored)]})


def _rollback(table: Table, given: Arguments) -> pa.Table:
    done = table.rollback(str(given["instant_time"]))
    return pa.table({"rollback_result": [True], "result": [str(done)]})


def _upgrade(table: Table, given: Arguments) -> pa.Table:
    return _sentence(table.upgrade(_version(given)), "")


def _downgrade(table: Table, given: Arguments) -> pa.Table:
    return _sentence(table.downgrade(_version(given)), "")


def _version(given: Arguments) -> int | None:
    version = given.get("to_version")
    if version is None:
        return None
    words = {"EIGHT": 8, "NINE": 9, "TEN": 10}
    text = str(version).upper()
    if not text.isdigit() and text not in words:
        raise InvalidError(f"CALL: to_version {version!r}: expected a table version such as 9")
    return words.get(text) or int(text)


def _cluster(table: Table, given: Arguments) -> pa.Table:
    named = given.get("partitions")
    partitions = None if named is None else [part.strip() for part in str(named).split(",")]
    done = table.cluster(partitions=partitions, options=_options(given))
    return _sentence(done, "nothing to cluster")


PROCEDURES: Final[Mapping[str, Procedure]] = {
    "show_commits": Procedure(
        "List the commits, newest first.", ("limit",), lambda t, a: reports.commits(t, _limit(a))
    ),
    "show_timeline": Procedure(
        "List all instants of the timeline, newest first, archived ones included.",
        ("limit",),
        lambda t, a: reports.timeline(t, _limit(a)),
    ),
    "show_savepoints": Procedure("List the savepoints.", (), lambda t, _: reports.savepoints(t)),
    "create_savepoint": Procedure(
        "Protect a commit, by default the latest, from cleaning.",
        ("commit_time", "user", "comments"),
        _savepoint,
    ),
    "delete_savepoint": Procedure(
        "Delete a savepoint.", ("instant_time",), _delete_savepoint, ("instant_time",)
    ),
    "rollback_to_savepoint": Procedure(
        "Restore the table to a savepoint; later commits are lost.",
        ("instant_time",),
        _restore,
        ("instant_time",),
    ),
    "rollback_to_instant": Procedure(
        "Roll back the latest commit, or a pending instant.",
        ("instant_time",),
        _rollback,
        ("instant_time",),
    ),
    "run_compaction": Procedure(
        "Plan and execute a compaction; `op` is schedule, run or scheduleAndExecute.",
        ("timestamp", "options"),
        _compaction,
        before=("op",),
    ),
    "show_compaction": Procedure(
        "List the compactions, pending ones included.",
        ("limit",),
        lambda t, a: reports.services(t, "compaction", _limit(a)),
    ),
    "run_clustering": Procedure(
        "Merge small file groups; `partitions` are paths, separated by commas.",
        ("partitions", "options"),
        _cluster,
    ),
    "show_clustering": Procedure(
        "List the clusterings, pending ones included.",
        ("limit",),
        lambda t, a: reports.services(t, "clustering", _limit(a)),
    ),
    "run_clean": Procedure(
        "Delete file versions that no retained commit needs.",
        ("retain_commits", "hours_retained", "file_versions_retained", "clean_policy", "options"),
        _clean,
    ),
    "show_cleans": Procedure(
        "List the cleans.", ("limit",), lambda t, a: reports.services(t, "clean", _limit(a))
    ),
    "show_rollbacks": Procedure(
        "List the rollbacks.", ("limit",), lambda t, a: reports.services(t, "rollback", _limit(a))
    ),
    "archive_commits": Procedure(
        "Move old instants to the archived timeline.",
        ("options",),
        lambda t, a: _sentence(t.archive(options=_options(a)), "nothing to archive"),
    ),
    "stats_file_sizes": Procedure(
        "Show the distribution of file sizes, by the commit that wrote the files.",
        ("partition_path", "limit"),
        lambda t, a: reports.file_sizes(t, a.get("partition_path"), _limit(a)),
    ),
    "show_fsview_latest": Procedure(
        "List the files that a read uses.", ("limit",), lambda t, a: reports.files(t, _limit(a))
    ),
    "show_logfile_metadata": Procedure(
        "List the blocks of the log files that a read uses.",
        ("log_file_path_pattern", "limit"),
        lambda t, a: reports.log_blocks(t, a.get("log_file_path_pattern"), _limit(a)),
    ),
    "show_table_properties": Procedure(
        "List the table's properties.", ("limit",), lambda t, a: reports.properties(t, _limit(a))
    ),
    "upgrade_table": Procedure("Move the table to a newer version.", ("to_version",), _upgrade),
    "downgrade_table": Procedure(
        "Move the table to an older version.", ("to_version",), _downgrade, ("to_version",)
    ),
    "run_services": Procedure(
        "Run the services that are due.",
        (),
        lambda t, _: _sentence(t.run_services(), "nothing is due"),
    ),
    "verify": Procedure(
        "Check the table and list all problems.",
        (),
        lambda t, _: _sentence(tuple(str(t.verify()).splitlines()), ""),
    ),
}
"""The procedures by name."""


def _limit(given: Arguments) -> int | None:
    limit = given.get("limit")
    if limit is None:
        return None
    if not isinstance(limit, int) or limit < 0:
        raise InvalidError(f"CALL: limit {limit!r}: expected a number of rows")
    return limit
