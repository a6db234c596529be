"""Random histories of writes and services: every moment reads as it was, or is refused."""

from hypothesis import event, given, settings
from hypothesis import strategies as st

from lakebed.errors import InvalidError, NotFoundError
from lakebed.model.clock import ManualClock
from lakebed.model.options.services import ArchiveOptions, CleanOptions, CleanPolicy
from lakebed.services.archive.execute import archive
from lakebed.services.clean.execute import clean
from lakebed.services.compaction.execute import execute_compaction, pending_compactions
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.table.snapshot import load_snapshot
from support.tables import batch, make, reopen, user_rows

BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
WRITES = ["upsert", "upsert", "upsert", "insert_overwrite", "delete_partitions"]
SERVICES = ["schedule", "compact", "clean", "clean", "archive"]
STEPS = st.lists(
    st.tuples(st.sampled_from(WRITES + SERVICES), st.integers(0, 2), st.sampled_from("pq")),
    min_size=8,
    max_size=30,
)


class History:
    """A table, and what it held after each commit."""

    def __init__(self, table_type: str, policy: CleanPolicy) -> None:
        clock = ManualClock(step_ms=1)
        self.table = make(
            None, clock, table_type=table_type, ordering=("ts",), buckets=1, properties=BY_HAND
        )
        self.clean = CleanOptions(policy, 2, 1, 1, min_age_seconds=0)
        self.archive = ArchiveOptions(3, 4, delta_commits=1, merge_files=2, clean=self.clean)
        self.rows: dict[str, dict] = {}
        self.earliest = ""

    def step(self, number: int, what: str, key: int, partition: str) -> None:
        target = self.table._target()
        if what == "clean":
            done = clean(target, self.clean)
            self.earliest = max(self.earliest, done.earliest_retained if done else "")
            event("cleaned" if done else "nothing to clean")
        elif what == "archive":
            done = archive(target, self.archive)
            self.earliest = max(self.earliest, done.first_active if done else "")
            event("archived" if done else "nothing to archive")
        elif what == "schedule":
            schedule_compaction(target, None, "full", force=True)
        elif what == "compact":
            schedule_compaction(target, None, "full", force=True)
            snapshot = load_snapshot(self.table._storage, self.table.config)
            for instant in pending_compactions(snapshot)[:1]:
                execute_compaction(target, instant)
        else:
            self.write(number, what, key, partition)

    def write(self, number: int, what: str, key: int, partition: str) -> None:
        pending = pending_compactions(load_snapshot(self.table._storage, self.table.config))
        if what != "upsert" and pending:
            return  # refused while a plan has settled what it reads
        if what == "delete_partitions":
            try:
                done = self.table.delete_partitions([partition])
            except NotFoundError:
                return  # it has no such partition
        else:
            done = getattr(self.table, what)(batch((f"k{key}", number, number, partition)))
        self.rows[done.instant] = user_rows(self.table)

    def check(self) -> None:
        again = reopen(self.table._storage)
        if self.rows:
            assert user_rows(again) == self.rows[max(self.rows)]
        for instant, rows in self.rows.items():
            try:
                assert user_rows(again, instant) == rows
            except InvalidError:
                assert instant < self.earliest


@settings(max_examples=25)
@given(
    STEPS,
    st.sampled_from(["COPY_ON_WRITE", "MERGE_ON_READ", "MERGE_ON_READ"]),
    st.sampled_from([CleanPolicy.KEEP_LATEST_COMMITS, CleanPolicy.KEEP_LATEST_FILE_VERSIONS]),
)
def test_every_moment_reads_as_it_was_or_is_refused(steps, table_type, policy):
    history = History(table_type, policy)
    for number, (what, key, partition) in enumerate(steps):
        if table_type == "COPY_ON_WRITE" and what in ("schedule", "compact"):
            continue
        history.step(number, what, key, partition)
        if what not in WRITES:
            history.check()
    history.check()
