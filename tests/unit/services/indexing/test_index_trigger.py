"""When an index is compacted: runs of small commits are merged, and rows looked up if many are stale."""

import pytest

from lakebed.index.secondary.manifest import CommitRuns, Manifest, MergedRuns, RunFile
from lakebed.model.options.services import IndexOptions
from lakebed.services.indexing.trigger import Due, choose_runs, what_is_due
from lakebed.table.files.file_group import FileGroupId

OPTIONS = IndexOptions()


def run(entries: int, name: str = "") -> RunFile:
    return RunFile(f"{name}{entries}", entries, entries)


def manifest(rows: int, *commits: int, merged: tuple[int, ...] = (), **changes) -> Manifest:
    """Return a manifest of an index of `rows` and of commits with these numbers of entries."""
    return Manifest(
        is_complete=True,
        mark="",
        base=(run(rows),),
        commits={f"{n:03}": CommitRuns((run(e, f"c{n}-"),)) for n, e in enumerate(commits)},
        merged=tuple(
            MergedRuns(frozenset(f"m{n}-{i}" for i in range(8)), CommitRuns((run(e, f"m{n}-"),)))
            for n, e in enumerate(merged)
        ),
        **changes,
    )


@pytest.mark.parametrize(
    ("held", "due"),
    [
        (manifest(1000), Due.NOTHING),
        (manifest(1_000_000, *[100] * 8), Due.NOTHING),
        (manifest(1_000_000, *[100] * 9), Due.MERGE),
        # Runs that are large beside the base are not merged, and looked up only in the end.
        (manifest(2_000_000, *[125_000] * 16), Due.NOTHING),
        (manifest(2_000_000, *[125_000] * 17), Due.SETTLE),
        # Hot keys of a small table.
        (manifest(2000, *[20] * 9), Due.MERGE),
        (manifest(2000, *[50] * 9), Due.SETTLE),
        (manifest(2000, 20, merged=(390,)), Due.SETTLE),
        # More than queries would follow, by commits that are smaller than the lookups.
        (manifest(5_000_000, 10, merged=(9_000,)), Due.NOTHING),
        (manifest(5_000_000, *[150] * 8, merged=(1_400,) * 8), Due.SETTLE),
        # The first rows of an empty table replaced nothing.
        (manifest(0, 2_000_000, 125_000), Due.NOTHING),
        (manifest(1000, 1, whole=frozenset({FileGroupId("", "f")})), Due.SETTLE),
    ],
)
def test_an_index_is_compacted_when_it_is_worth_it(held, due):
    assert what_is_due(held, OPTIONS) is due


def test_open_entries_are_looked_up_soon():
    held = manifest(20_000)
    for entries, due in ((200, Due.NOTHING), (201, Due.SETTLE)):
        commits = {"1": CommitRuns(open=(run(entries),))}
        found = what_is_due(Manifest(True, "", base=held.base, commits=commits), OPTIONS)
        assert found is due


def test_a_large_run_waits_until_there_is_as_much_to_merge_with_it():
    commits, merged = choose_runs(manifest(10**6, *[10] * 9, merged=(500,)), 8)
    assert (len(commits), len(merged)) == (9, 0)
    commits, merged = choose_runs(manifest(10**6, *[10] * 9, merged=(90, 500)), 8)
    assert (len(commits), [one.runs.entries[0].entries for one in merged]) == (9, [90])
    commits, merged = choose_runs(manifest(10**6, 200_000, *[10] * 9), 8)
    assert commits == [f"{n:03}" for n in range(1, 10)]
