"""Creates, builds and drops secondary indexes, while other processes read and write the table.

The definition is stored first, so that writes that begin later list their entries; then the rows of
a snapshot are indexed. Meanwhile an incomplete manifest accounts for new commits. No query uses the
index before its build has completed.
"""

import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from lakebed.commit.hold import TableHold, hold_table
from lakebed.errors import (
    ConflictError,
    CorruptError,
    ExistsError,
    InvalidError,
    LakebedError,
    NotFoundError,
)
from lakebed.index.secondary.definition import (
    IndexDefinition,
    index_names,
    parse_definitions,
    property_name,
)
from lakebed.index.secondary.manifest import (
    MANIFEST_NAME,
    CommitRuns,
    Manifest,
    RunFile,
    put_manifest,
    read_manifest,
)
from lakebed.index.secondary.open_index import OpenIndex, index_folder, index_root, open_index
from lakebed.model.executor import Executor
from lakebed.model.spelling import nearest
from lakebed.services.indexing.parts import OPEN_KINDS, merge_parts, plan_parts, write_parts
from lakebed.storage.storage import Storage
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.properties_file import update_properties
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.damage import check_whole
from lakebed.table.snapshot import Snapshot
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

_FOLDER = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\.[0-9a-f]{8}-[0-9a-f-]{27}/")
# A build starts again if a file that it reads is cleaned; the parts of other files are reused.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Built:
    """An index that was built: its definition, entries, and size."""

    definition: IndexDefinition
    entries: int
    size_bytes: int

    def __str__(self) -> str:
        """Return the result as one sentence."""
        return f"index {self.definition.name}: {self.entries:,} entries, {self.size_bytes:,} bytes"


def create_index(
    target: WriteTarget, name: str, columns: list[str], *, if_not_exists: bool = False
) -> tuple[Built | None, TableConfig]:
    """Define an index and build it; return None if it exists and `if_not_exists` is set.

    If the index exists and its build was interrupted, the build is resumed.
    """
    with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
        found = find_index(hold.config, name)
        if found is None:
            definition, config = _define(hold, name, columns), hold.config
        elif not if_not_exists:
            raise ExistsError(
                f"table {hold.config.name!r}: index {name!r} exists, on "
                f"{', '.join(found.columns)}; drop it first, or pass if_not_exists=True"
            )
        else:
            definition, config = found, hold.config
            wanted = IndexDefinition.create(name, columns, hold.snapshot.schema, found.id)
            if wanted.columns != found.columns:
                raise InvalidError(
                    f"table {config.name!r}: index {name!r} exists, on {', '.join(found.columns)} "
                    f"instead of {', '.join(wanted.columns)}; drop it first, or choose another name"
                )
            manifest = read_manifest(hold.storage, index_folder(config, definition))
            if manifest is not None and manifest.is_complete:
                return None, config
    try:
        return build_index(replace(target, config=config), definition), config
    except LakebedError:
        if found is None:
            # The build would fail again for the same reason.
            with suppress(LakebedError):
                _remove(target, definition)
        raise


def _remove(target: WriteTarget, definition: IndexDefinition) -> None:
    """Remove an index whose build failed."""
    with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
        if find_index(hold.config, definition.name) == definition:
            config = update_properties(hold.storage, {definition.property_name: None})
            delete_orphans(hold.storage, config)


def drop_index(target: WriteTarget, name: str, *, if_exists: bool = False) -> TableConfig:
    """Remove an index and its runs."""
    with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
        if property_name(name) not in hold.config.properties:
            if if_exists:
                return hold.config
            raise missing_index(hold.config, name)
        config = update_properties(hold.storage, {property_name(name): None})
        delete_orphans(hold.storage, config)
        return config


def find_index(config: TableConfig, name: str) -> IndexDefinition | None:
    """Return the definition of an index; None if the table has no index of this name."""
    found = parse_definitions(config.properties)
    return next((one for one in found if one.name == name), None)


def missing_index(config: TableConfig, name: str) -> NotFoundError:
    """Return the error for an index that does not exist."""
    names = index_names(config.properties)
    return NotFoundError(
        f"table {config.name!r} has no index {name!r}{nearest(name, names)}; its indexes are: "
        f"{', '.join(names) or 'none'}"
    )


def _define(hold: TableHold, name: str, columns: list[str]) -> IndexDefinition:
    """Check the definition of a new index and store it, with an incomplete manifest."""
    config, schema = hold.config, hold.snapshot.schema
    if config.merge_mode is MergeMode.CUSTOM:
        raise InvalidError(
            f"table {config.name!r} has a custom merger, which may compute values that were never "
            "written: it cannot have a secondary index; create a table with another merge mode"
        )
    id_ = hold.clock.new_uuid()
    definition = IndexDefinition.create(name, columns, schema, id_)
    for column in definition.columns:
        if column in config.dropped_columns:
            raise InvalidError(
                f"index {name!r}: column {column!r} is being dropped; index another column, or call "
                f"drop_column({column!r}) again if it was interrupted"
            )
    hold.lock.check()
    delete_orphans(hold.storage, config)
    start_build(hold, definition)
    hold.config = update_properties(hold.storage, {definition.property_name: definition.encode()})
    return definition


def start_build(hold: TableHold, definition: IndexDefinition) -> tuple[Snapshot, str]:
    """Write an incomplete manifest; return the snapshot to build from, and a token."""
    folder, token = index_folder(hold.config, definition), hold.clock.new_uuid()
    manifest = replace(Manifest.at(hold.timeline), token=token)
    put_manifest(hold.storage, folder, manifest)
    return hold.snapshot, token


def build_index(target: WriteTarget, definition: IndexDefinition) -> Built:
    """Build the runs of an index from the rows of the table, reusing parts of earlier attempts."""
    for attempt in range(_ATTEMPTS):
        with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
            if (found := find_index(hold.config, definition.name)) is None:
                raise missing_index(hold.config, definition.name)
            definition = _retyped(hold, found)
            snapshot, token = start_build(hold, definition)
        try:
            runs = write_base(target, snapshot, definition, token)
        except NotFoundError as error:
            runs, lost = None, error
        with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
            if runs is not None and _complete(hold, definition, snapshot, token, runs):
                return _built(definition, runs.files)
            if (other := _built_by_another(hold, definition, token)) is not None:
                return other
        if runs is None and attempt == _ATTEMPTS - 1:
            raise lost
        log.warning("index %s: files changed while it was built; trying again", definition.name)
    raise ConflictError(
        f"index {definition.name!r}: the table was rolled back, or another process built or dropped "
        "the index, during each attempt to build it; try again"
    )


def _retyped(hold: TableHold, definition: IndexDefinition) -> IndexDefinition:
    """Return the definition with the current types of its columns."""
    if definition.resolve(hold.snapshot.schema) is not None:
        return definition
    columns, schema = definition.columns, hold.snapshot.schema
    # A new id, because the runs that older commits list hold values of the former type.
    id_ = hold.clock.new_uuid()
    changed = IndexDefinition.create(definition.name, columns, schema, id_)
    hold.config = update_properties(hold.storage, {changed.property_name: changed.encode()})
    return changed


def write_base(
    target: WriteTarget, snapshot: Snapshot, definition: IndexDefinition, token: str
) -> CommitRuns:
    """Write the entries of all rows of a snapshot: base runs, and the keys that are open."""
    kinds = definition.resolve(snapshot.schema)
    assert kinds is not None, definition
    view = snapshot.view(target.merger)
    check_whole(snapshot.slices)
    folder = index_folder(snapshot.config, definition)
    tasks = plan_parts(view, definition, folder, snapshot.slices)
    written = list(target.executor.run(write_parts, tasks, f"build index {definition.name}"))
    parts = [part for of in written for part in of.entries]
    prefix, executor = f"{folder}/base-{token}", target.executor
    base = merge_parts(snapshot.storage, definition, kinds, parts, prefix, executor)
    return CommitRuns(base, merge_open(snapshot.storage, definition, written, prefix, executor))


def keeps_hidden(snapshot: Snapshot) -> bool:
    """Return whether runs built from a snapshot may have entries of versions that others hide."""
    return not snapshot.config.is_lsm_tree and any(slice_.log_files for slice_ in snapshot.slices)


def merge_open(
    storage: Storage,
    definition: IndexDefinition,
    written: Iterable[CommitRuns],
    prefix: str,
    executor: Executor,
) -> tuple[RunFile, ...]:
    """Merge the open entries of parts into runs whose paths begin with `prefix`."""
    parts = [part for of in written for part in of.open]
    return merge_parts(storage, definition, OPEN_KINDS, parts, f"{prefix}-open", executor)


def _built(definition: IndexDefinition, runs: Iterable[RunFile]) -> Built:
    held = list(runs)
    size = sum(run.size_bytes for run in held)
    return Built(definition, sum(run.entries for run in held), size)


def _built_by_another(hold: TableHold, definition: IndexDefinition, token: str) -> Built | None:
    """Return the index if another process has built it meanwhile."""
    opened = open_index(hold.snapshot, definition)
    if not isinstance(opened, OpenIndex) or find_index(hold.config, definition.name) != definition:
        return None
    if opened.manifest.token == token:
        return None
    return _built(definition, [*opened.runs, *opened.open_runs])


def _complete(
    hold: TableHold, definition: IndexDefinition, built: Snapshot, token: str, runs: CommitRuns
) -> bool:
    """Complete the manifest of runs that were built from a snapshot.

    Returns False if the table or the index has since changed so that the runs cannot be used.
    """
    folder = index_folder(hold.config, definition)
    manifest = read_manifest(hold.storage, folder)
    if manifest is None or manifest.token != token or manifest.broken(hold.snapshot) is not None:
        return False
    hold.lock.check()
    manifest = replace(
        manifest,
        is_complete=True,
        base=runs.entries,
        delta=CommitRuns(open=runs.open),
        keeps_hidden=keeps_hidden(built),
    )
    put_manifest(hold.storage, folder, manifest)
    delete_unlisted(hold.storage, folder, manifest.files)
    _delete_settled(hold, folder, manifest)
    return True


def account_for_commits(hold: TableHold) -> None:
    """Account for the commits of the timeline in every index, before some of them are archived."""
    for definition in parse_definitions(hold.config.properties):
        folder = index_folder(hold.config, definition)
        try:
            manifest = read_manifest(hold.storage, folder)
        except CorruptError:
            continue  # no query uses it; repair builds it again
        if manifest is None:
            continue
        if manifest.broken(hold.snapshot) is None:
            put_manifest(
                hold.storage, folder, manifest.account_for(hold.snapshot, definition.folder)
            )
        else:
            # After archiving, the rollback of a commit could no longer be detected.
            hold.storage.delete(f"{folder}/{MANIFEST_NAME}")


def delete_unlisted(storage: Storage, folder: str, kept: frozenset[str]) -> None:
    """Delete the parts and base runs of an index that are not in use, under the table's lock."""
    for entry in list(storage.list(folder)):
        name = entry.path.removeprefix(f"{folder}/")
        if name.startswith(("base-", "parts/")) and entry.path not in kept:
            storage.delete(entry.path)


def _delete_settled(hold: TableHold, folder: str, manifest: Manifest) -> None:
    """Delete the runs of commits whose rows are in the base runs."""
    first = hold.timeline.first_active or ""
    for entry in list(hold.storage.list(folder)):
        at, _, rest = entry.path.removeprefix(f"{folder}/").partition("_")
        is_old = bool(rest) and (at in manifest.settled or at < first)
        if is_old and entry.path not in manifest.files:
            hold.storage.delete(entry.path)


def delete_orphans(storage: Storage, config: TableConfig) -> None:
    """Delete the files of indexes that the table no longer defines."""
    root = index_root(config)
    known = {one.name: one.folder for one in parse_definitions(config.properties)}
    # If a definition is damaged, the id is unknown, and all folders of the name are kept.
    kept = tuple(
        f"{root}/{known[name]}/" if name in known else f"{root}/{name}."
        for name in index_names(config.properties)
    )
    for entry in list(storage.list(root)):
        # The folder chosen for indexes may hold other files too.
        is_ours = _FOLDER.match(entry.path.removeprefix(f"{root}/")) is not None
        if is_ours and not entry.path.startswith(kept):
            storage.delete(entry.path)
