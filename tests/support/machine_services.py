"""Random histories of every operation and every service, inline or by hand."""

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from lakebed.api.table import Table
from lakebed.errors import ConflictError, ExistsError, InvalidError, UnsupportedError
from lakebed.format.names.bucket_hash import bucket_of_file_id
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.clock import ManualClock
from lakebed.services.compaction.plan_file import CompactionPlan, Kind
from lakebed.services.verify.findings import Severity
from lakebed.table.files.retention import named_files
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import COMMIT_ACTIONS, WRITE_ACTIONS, TimelineInstant
from support.indexes import check_indexes
from support.machine import OPERATIONS, PARTITIONS, InMemory, TableMachine, check_same
from support.model import ALL_TIME, COLUMNS, Event, Group, Ident, ModelTable, Row, Shape
from support.tables import base_run, check_files, reopen

SERVICES = ["schedule", "schedule", "carry_out", "carry_out", "compact", "compact", "cluster"]
SERVICES += ["clean", "clean", "archive", "savepoint", "savepoint", "restore", "roll_back"]
SERVICES += ["delete_savepoint", "convert", "run_services", "tick", "drop_plan"]
STEPS = [*OPERATIONS, *SERVICES, "upsert", "upsert", "delete_keys", "update_columns"]

MODES = ["full", "log", "hybrid"]
# So that a small table meets both kinds: logs are joined unless they are as large as this.
EAGER = {"hoodie.log.compaction.blocks.threshold": "2", "lakebed.compaction.log.ratio": "2.0"}
_AT_ONCE = {"lakebed.clean.min.age.seconds": "0"}
CLEANS = [
    {"hoodie.clean.policy": policy, name: number, **_AT_ONCE}
    for number in ("1", "2")
    for policy, name in (
        ("KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained"),
        ("KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained"),
        ("KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained"),
    )
]
ARCHIVES = {
    **_AT_ONCE,
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.timeline.compaction.batch.size": "2",
}
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
INLINE_RETAINED = 2
INLINE = {
    "hoodie.clean.commits.retained": str(INLINE_RETAINED),
    "hoodie.clean.trigger.max.commits": "1",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
    **_AT_ONCE,
    **EAGER,
}
CONCURRENCY = {
    "single": "SINGLE_WRITER",
    "optimistic": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "non_blocking": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
_TICKS_MS = [60_000, 25 * 3_600_000, -600_000]


class _Complaints(logging.Handler):
    """What services that ran by themselves had to say."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


class ServicesMachine(InMemory):
    """A table in memory with every service, inline or by hand."""

    steps = STEPS
    concurrency = st.sampled_from(sorted(CONCURRENCY))
    inline = st.sampled_from([False, False, True])

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        self.mode = data.draw(self.concurrency, label="concurrency")
        self.is_inline = data.draw(self.inline, label="inline")
        self.saved: set[str] = set()
        # From here on every moment is readable, as far as the active timeline goes.
        self.promised = ""
        self.is_disturbed = False
        # Whether the order in which versions are folded has changed in the table's life.
        self.is_mixed = False
        self.complaints = _Complaints()
        logging.getLogger("lakebed.services.upkeep").addHandler(self.complaints)
        super().create(data)

    def first_steps(self) -> list[str]:
        # Services of an empty table have little to do.
        return ["upsert", "upsert"]

    def empty_model(self) -> ModelTable:
        if self.mode == "non_blocking" and not (
            self.shape.on_read and self.shape.index == "bucket"
        ):
            self.mode = "optimistic"
        return ModelTable(self.shape, non_blocking=self.mode == "non_blocking")

    def properties(self, data: st.DataObject) -> dict[str, str]:
        inline_mode = data.draw(st.sampled_from(MODES), label="inline mode")
        inline = {**INLINE, "lakebed.compaction.mode": inline_mode}
        return {
            **TableMachine.properties(self, data),
            **(inline if self.is_inline else BY_HAND),
            # Time goes by in leaps here; when tombstones expire is tried elsewhere.
            "lakebed.tombstone.retention": "9999 days",
            "hoodie.write.concurrency.mode": CONCURRENCY[self.mode],
        }

    def again(self) -> Table:
        return reopen(self.storage, self.clock)

    # --- the model

    def sync(self) -> None:
        """Learn what services did by themselves, and go on from there."""
        snapshot = self.again()._now()
        known = {event.at for event in self.events}
        for commit in snapshot.timeline.commits:
            if commit.requested not in known:
                assert commit.plan_action in WRITE_ACTIONS - COMMIT_ACTIONS, commit
                groups = self._compacted(snapshot, commit)
                self._shown_once(self.history.rewrote(commit.requested, groups))
        self.history.go_on()
        if self.is_inline:
            self._promise_last(INLINE_RETAINED)

    def _compacted(self, snapshot: Snapshot, commit: TimelineInstant) -> set[Group] | None:
        """Return the file groups that a full compaction rewrote."""
        if commit.plan_action is not Action.COMPACTION or not self.model.keeps_logs:
            return None
        data = snapshot.commits.active.read(commit, State.REQUESTED)
        plan = CompactionPlan.parse(data, commit.plan_action, "the plan")
        return {
            (o.group.partition, bucket_of_file_id(o.group.file_id))
            for o in plan.operations
            if o.kind is Kind.FULL
        }

    def _promise_last(self, retained: int) -> None:
        if len(self.events) > retained:
            self.promised = max(self.promised, self.events[-retained].at)

    def _take_back(self, gone: Callable[[Event], bool]) -> None:
        self.history.take_back(gone)
        schema = self.again().schema
        wanted = self.events[-1].columns if self.events else tuple(COLUMNS)
        assert {f.name for f in wanted} <= set(schema.names)
        self.columns = [schema.field(f.name) for f in self.columns if f.name in schema.names]

    # --- steps

    def tick(self, data: st.DataObject) -> None:
        self.clock.ms += data.draw(st.sampled_from(_TICKS_MS), label="ms")

    def _draw_rows(self, data: st.DataObject, names: set[str]) -> list[list[Row]]:
        """Draw few rows as often as many: what a write leaves alone is older than what it touches."""
        batches = super()._draw_rows(data, names)
        return [batches[0][:1]] if data.draw(st.booleans(), label="one row") else batches

    def _is_unsure(self, row: Row) -> bool:
        ident = self.shape.ident(row)
        order = tuple(row[name] for name in self.shape.ordering)
        if self.is_mixed and (order < self.model.highest.get(ident, ()) or self._is_late(ident)):
            return True
        return super()._is_unsure(row)

    def insert_overwrite(self, data: st.DataObject) -> None:
        """End file groups: refused while a compaction of them is planned."""
        with self._unless_planned():
            super().insert_overwrite(data)

    def delete_partitions(self, data: st.DataObject) -> None:
        """End file groups: refused while a compaction of them is planned."""
        with self._unless_planned():
            super().delete_partitions(data)

    @contextmanager
    def _unless_planned(self) -> Iterator[None]:
        planned = self._pending()
        try:
            yield
        except ConflictError:
            assert planned

    def _is_late(self, ident: Ident) -> bool:
        return self.model.keeps_logs and self.model.has_late(ident)

    def schedule(self, data: st.DataObject) -> None:
        """Plan a compaction for whoever comes later."""
        if self._refuses_compaction():
            return
        mode = data.draw(st.sampled_from(MODES), label="mode")
        self.table.schedule_compaction(mode, options=EAGER)
        self.sync()

    def carry_out(self, data: st.DataObject) -> None:
        """Carry out a plan, of whomever."""
        pending = self._pending()
        if pending:
            chosen = data.draw(st.sampled_from(pending), label="plan")
            self.table.compact(instant=chosen.requested)
            self.sync()

    def drop_plan(self, data: st.DataObject) -> None:
        """Give a plan up."""
        pending = self._pending()
        if pending:
            chosen = data.draw(st.sampled_from(pending), label="plan")
            self.table.rollback(chosen.requested, delete_plan=True)
            assert chosen not in self._pending()

    def compact(self, data: st.DataObject) -> None:
        if self._refuses_compaction():
            return
        mode = data.draw(st.sampled_from(MODES), label="mode")
        planned = self._pending()
        self.table.compact(mode, options=EAGER)
        self.sync()
        assert not self._pending()
        if mode == "full" and self.model.keeps_logs and not planned:
            base = {ident: self._full(row) for ident, row in self.model.base_rows().items()}
            check_same(base, self._wanted(), "all is in base files")

    def _refuses_compaction(self) -> bool:
        if self.shape.on_read:
            return False
        with suppress(InvalidError):
            self.table.schedule_compaction()
            raise AssertionError("a copy-on-write table was compacted")
        return True

    def _pending(self) -> list[TimelineInstant]:
        timeline = self.again()._now().timeline
        return list(timeline.pending(Action.COMPACTION, Action.LOGCOMPACTION))

    def cluster(self, data: st.DataObject) -> None:
        if self.shape.index == "bucket":
            return
        one = data.draw(st.booleans(), label="one partition") and self.shape.partition_by
        partition = data.draw(st.sampled_from(PARTITIONS), label="partition") if one else None
        # A row to a file, a few rows to a file, all of them in one.
        size = data.draw(st.sampled_from(["1", "2000", "1000000"]), label="bytes")
        done = self.table.cluster(
            partitions=[{"dt": partition}] if partition else None,
            options={"hoodie.clustering.plan.strategy.target.file.max.bytes": size},
        )
        self.sync()
        if done is not None:
            self._check_clustered(done.instant, done.written)

    def _check_clustered(self, instant: str, written: int) -> None:
        """Assert that the new files of a partition follow each other, with no key in common."""
        slices = [s for s in self.again()._now().slices if s.instant == instant]
        assert len(slices) == written
        for _, some in itertools.groupby(slices, key=lambda slice_: slice_.group.partition):
            files = [s.base_file.path for s in some if s.base_file]
            keys = [base_run(self.storage, path)[1].to_pylist() for path in files]
            ends = sorted((held[0].encode(), held[-1].encode()) for held in keys)
            assert all(low[1] < high[0] for low, high in itertools.pairwise(ends))

    def clean(self, data: st.DataObject) -> None:
        options = data.draw(st.sampled_from(CLEANS), label="clean")
        done = self.table.clean(options=options)
        if done is not None:
            self.is_disturbed = True
            self.promised = max(self.promised, done.earliest_retained)
            kept = int(options.get("hoodie.clean.commits.retained", "1"))
            assert done.earliest_retained <= self.events[-min(kept, len(self.events))].at

    def archive(self, data: st.DataObject) -> None:
        del data
        if self.table.archive(options=ARCHIVES) is not None:
            self.is_disturbed = True

    def savepoint(self, data: st.DataObject) -> None:
        if not self.events:
            return
        newest = data.draw(st.booleans(), label="newest")
        event = self.events[-1] if newest else data.draw(st.sampled_from(self.events))
        try:
            made = self.table.savepoint(None if newest else event.at)
        except ExistsError:
            assert event.at in self.saved
        except InvalidError:
            assert not self.is_promised(event.at)
        else:
            assert made.instant == event.at
            self.saved.add(event.at)
        assert self.saved == {kept.instant for kept in self.table.savepoints()}

    def delete_savepoint(self, data: st.DataObject) -> None:
        if self.saved:
            chosen = data.draw(st.sampled_from(sorted(self.saved)), label="savepoint")
            self.table.delete_savepoint(chosen)
            self.saved.remove(chosen)

    def restore(self, data: st.DataObject) -> None:
        if not self.saved:
            return
        chosen = data.draw(st.sampled_from(sorted(self.saved)), label="savepoint")
        try:
            self.table.restore(chosen)
        except InvalidError:
            assert chosen != max(self.saved)
            return
        assert chosen == max(self.saved)
        self._take_back(lambda event: event.at > chosen)

    def roll_back(self, data: st.DataObject) -> None:
        """Take back the last commit, or one that is not the last, which is refused."""
        if not self.events:
            return
        at = data.draw(st.sampled_from(self.events[-2:]), label="instant").at
        later = [e.at for e in self.events if e.at > at] + [p.requested for p in self._pending()]
        may = at not in self.saved and all(other < at for other in later)
        try:
            self.table.rollback(at)
        except InvalidError:
            assert not may or self.is_disturbed or self.is_inline
            return
        assert may
        self._take_back(lambda event: event.at == at)

    def convert(self, data: st.DataObject) -> None:
        """Move to another version or layout, or both."""
        versions = [v for v in (8, 9, 10) if v >= min(9, self.shape.version)]
        version = data.draw(st.sampled_from(versions), label="version")
        layout = data.draw(st.sampled_from(["lsm_tree", "default"]), label="layout")
        new = replace(self.shape, version=version, layout=layout)
        mixes = new.folds_logs_first != self.shape.folds_logs_first
        if mixes and any(map(self.model.is_risky, self.model.versions)):
            return
        down = version < self.shape.version
        drops = version < 10 <= self.shape.version
        move = self.table.downgrade if down else self.table.upgrade
        try:
            move(version, layout)
        except (InvalidError, UnsupportedError):
            assert drops
            assert self.saved or self.change_log, "change data in native files is in the way, too"
            self.sync()
            return
        self.sync()
        self.shape = self.history.now.shape = new
        self.is_mixed = self.is_mixed or mixes
        if drops:
            self.is_disturbed = True
            self._promise_last(1)
        self.history.go_on()

    def run_services(self, data: st.DataObject) -> None:
        del data
        done = self.table.run_services()
        self.is_disturbed = self.is_disturbed or bool(done)
        self.sync()
        self._promise_last(INLINE_RETAINED if self.is_inline else 10)

    # --- looks

    def is_promised(self, at: str) -> bool:
        first = self.again()._now().timeline.first_active
        return at >= self.promised and first is not None and at >= first

    def is_unsure_at(self, state: ModelTable) -> bool:
        return self.is_mixed and any(map(state.is_risky, state.versions))

    def folds_logs_first(self) -> bool:
        return super().folds_logs_first() or self.is_mixed

    def check_files(self, table: Table) -> None:
        check_files(table)
        timeline = table._now().timeline
        first = timeline.first_active or ""
        found = [c.requested for c in timeline.commits if c.requested >= first]
        assert found == [e.at for e in self.events if e.at >= first] or not found
        assert not self.complaints.said, self.complaints.said
        if self.step % 3 == 0:
            report = table.verify(quick=self.step % 2 == 0)
            assert not report.errors, report.findings

    def teardown(self) -> None:
        """Look at every moment, then clean for the last time: only what commits name is left."""
        logging.getLogger("lakebed.services.upkeep").removeHandler(self.complaints)
        if not self.is_sound:
            return
        for event in self.events:
            self.check_event(event)
        self.table = self.again()
        for pending in self._pending():
            self.table.compact(instant=pending.requested)
        self.clock.ms += 3_600_000
        self.table.clean(options=CLEANS[0])
        self.is_sound = False
        self.sync()
        check_same(self._by_ident(self.shown()), self._wanted(), "at the end")
        self.promised = ALL_TIME
        for event in self.events:
            self.check_event(event)
        check_named(self.again())
        if any(index.state != "ready" for index in self.again().indexes()):
            self.again().repair()
        check_indexes(self.again(), covered=True)
        report = self.again().verify()
        assert not [f for f in report.findings if f.severity is not Severity.NOTE], report


def check_named(table: Table) -> None:
    """Assert that a commit, be it archived, names every data file, and that nothing else is left."""
    snapshot = table._now()
    storage = snapshot.storage
    named = {p for c in snapshot.timeline.commits for p in named_files(snapshot.commits.read(c))}
    for row in read_archived(storage, snapshot.config.history_path):
        if row.action in COMMIT_ACTIONS and row.metadata:
            named.update(named_files(CommitMetadata.parse(row.metadata, row.requested)))
    assert not snapshot.timeline.pending()
    for entry in storage.list():
        assert not entry.path.startswith((".hoodie/.temp", ".hoodie/.heartbeat")), entry.path
        if not entry.path.startswith(".hoodie/") and parse_data_name(entry.path.rpartition("/")[2]):
            assert entry.path in named, f"{entry.path} is named by no commit"


class TurnsMachine(ServicesMachine):
    """Two processes with a table each, one of them with a clock that is behind, take turns."""

    def make(self, shape: Shape, properties: Mapping[str, str]) -> Table:
        table = super().make(shape, properties)
        self.behind = ManualClock(self.clock.ms - 500_000, step_ms=1, name="behind")
        # Random ids of two processes are never the same.
        self.behind._count = 1 << 40
        self.tables = [table, reopen(self.storage, self.behind)]
        return table

    def turn(self, data: st.DataObject) -> None:
        self.table = self.tables[data.draw(st.integers(0, 1), label="who")]

    def open_again(self, data: st.DataObject) -> None:
        """Keep both: what they remember of the table is what may be wrong."""
