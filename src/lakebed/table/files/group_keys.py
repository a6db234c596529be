"""Chooses the files of column groups that a read opens to find every row.

A row exists if any group holds its key, so the number of rows does not depend on the columns that
are read. Opening all groups for that would defeat their purpose. Two facts make it unnecessary:

- a write divides the same rows among the groups that it touches: where two groups have data logs of
  one instant, both logs hold the same keys;
- a base file holds every key that any group held when its instant began: a write creates one only
  in a new file group, where it has the keys of that write, and a compaction adds the keys that its
  group lacks.

So one of the groups that a read needs, the *lead*, holds all keys except those that only other
groups have received since its base file. If the lead has had a delete since then, it may lack keys
that another group keeps: then all groups are read, at least for the keys of these deletes.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from lakebed.format.names.data_names import LogKind, NativeLogName
from lakebed.table.files.file_group import BaseFile, FileSlice, LogFile

CompletionOf = Callable[[str], str | None]
KeysSince = Callable[[BaseFile], str]
IsWrite = Callable[[str], bool]


def _own_instant(base: BaseFile) -> str:
    return base.name.instant


def _any(_: str) -> bool:
    return True


def key_slices(
    parts: Mapping[str, FileSlice],
    needed: Collection[str],
    completion_of: CompletionOf,
    keys_since: KeysSince = _own_instant,
    is_write: IsWrite = _any,
) -> dict[str, FileSlice]:
    """Return the slices to read by column group: those `needed`, and others with further keys.

    `parts` are the slices of one file group. `completion_of` returns the completion time of an
    instant, or None if it is unknown; `keys_since` returns the instant from which the column group
    of a base file has had the same keys. `is_write` returns whether an instant is a write: the logs
    that one log compaction merges in several groups need not have the same keys.
    """
    found = {name: parts[name] for name in parts if name in needed}
    candidates = found or parts
    leads = [name for name, part in candidates.items() if not _may_lack_deleted(part)]
    if not leads:
        return dict(parts)
    lead = min(leads, key=lambda name: _cost(name, parts, completion_of, keys_since, is_write))
    found[lead] = parts[lead]
    for name, part in parts.items():
        if name not in found:
            more = further_keys(parts[lead], part, completion_of, keys_since, is_write)
            if more is not None:
                found[name] = more
    return found


def deletes_to_look_up(
    parts: Mapping[str, FileSlice],
    needed: Collection[str],
    completion_of: CompletionOf,
    keys_since: KeysSince = _own_instant,
    is_write: IsWrite = _any,
) -> tuple[FileSlice | None, frozenset[str]]:
    """Return the deletes of a lead, and the groups in which only the deleted keys are looked up.

    If each needed group has deletes, another group may keep a row that the lead has deleted. All
    other keys of these groups are in the lead. The deletes are None if there are no such groups.
    """
    leads = [name for name in parts if name in needed]
    if not leads or not all(_may_lack_deleted(parts[name]) for name in leads):
        return None, frozenset()
    leads = [name for name in leads if all(map(_is_native, parts[name].log_files))]
    if not leads:
        return None, frozenset()
    lead = min(leads, key=lambda name: _cost(name, parts, completion_of, keys_since, is_write))
    own = parts[lead]
    others = frozenset(
        name
        for name, part in parts.items()
        if name not in needed
        and further_keys(own, part, completion_of, keys_since, is_write) is None
    )
    logs = (*own.tombstones, *filter(_holds_deletes, own.log_files))
    deletes = FileSlice(own.group, own.instant, None, logs)
    return (deletes, others) if others else (None, others)


def _is_native(log: LogFile) -> bool:
    return isinstance(log.name, NativeLogName)


def _cost(
    lead: str,
    parts: Mapping[str, FileSlice],
    completion_of: CompletionOf,
    keys_since: KeysSince,
    is_write: IsWrite,
) -> tuple[int, int, str]:
    """Return the sort key of a lead: the bytes to read for further keys, its own bytes, its name."""
    further = (
        further_keys(parts[lead], part, completion_of, keys_since, is_write)
        for name, part in parts.items()
        if name != lead
    )
    return (
        sum(file.size_bytes for part in further if part is not None for file in part.files),
        sum(file.size_bytes for file in parts[lead].files),
        lead,
    )


def _may_lack_deleted(part: FileSlice) -> bool:
    """Return whether this group may have deleted a key that another group keeps.

    A tombstone beside the base file hides the row that the file may have for such a key.
    """
    return bool(part.tombstones) or any(map(_holds_deletes, part.log_files))


def further_keys(
    lead: FileSlice,
    other: FileSlice,
    completion_of: CompletionOf,
    keys_since: KeysSince = _own_instant,
    is_write: IsWrite = _any,
) -> FileSlice | None:
    """Return the files of `other` that may hold keys that `lead` lacks, and its deletes.

    Returns None if `lead` holds all keys of `other`. A log that completed before the base file of
    `lead` began, or whose write also wrote to `lead`, has no further keys. Nor has the base file of
    `other`, if its keys are at least as old as the base file of `lead`.
    """
    start = "" if lead.base_file is None else lead.base_file.name.instant
    instants = (log.name.instant for log in lead.log_files if not _holds_deletes(log))
    same = frozenset(filter(is_write, instants))

    def is_known(log: LogFile) -> bool:
        completion = completion_of(log.name.instant)
        return log.name.instant in same or (completion is not None and completion <= start)

    base = other.base_file
    if base is not None and (base.name.instant <= start or keys_since(base) <= start):
        base = None
    logs = tuple(
        log
        for log in other.log_files
        if _holds_deletes(log) or base is not None or not is_known(log)
    )
    if base is None and all(map(_holds_deletes, logs)):
        return None
    boundary = other.boundary
    if boundary is not None:
        older = other.log_files[: boundary.merged]
        boundary = replace(boundary, merged=sum(log in older for log in logs))
    return replace(other, base_file=base, log_files=logs, boundary=boundary)


def _holds_deletes(log: LogFile) -> bool:
    """Return whether a log may hold deletes; an inline log may hold anything."""
    return not isinstance(log.name, NativeLogName) or log.name.kind is LogKind.DELETES
