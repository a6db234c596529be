"""Random histories of every operation and every service, next to a model that knows all of the past.

The model is a list of events, one for each commit, with what it did to the versions of each key.
What the table holds at a moment is the replay of all events up to it: a compaction that was
planned early and carried out late counts from its plan on, and what is rolled back is left out.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from lakebed.api.table import Table
from lakebed.errors import ConflictError, ExistsError, InvalidError, UnsupportedError
from lakebed.format.names.bucket_hash import bucket_of_file_id
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import Action, State
from lakebed.format.names.meta_columns import COMMIT_TIME
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.clock import ManualClock
from lakebed.services.compaction.plan_file import CompactionPlan, Kind
from lakebed.services.verify.findings import Severity
from lakebed.storage.objects import memory_storage
from lakebed.table.files.retention import named_files
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import COMMIT_ACTIONS, WRITE_ACTIONS, TimelineInstant
from support.changes_model import check_incremental, replay
from support.lsm_machine import (
    LOOKS,
    OPERATIONS,
    PARTITIONS,
    LsmMachine,
    check_same,
    collect,
)
from support.lsm_model import COLUMNS, Ident, Row, Shape
from support.services_model import Event, ServicedTable
from support.tables import check_files, make, reopen

SERVICES = ["schedule", "schedule", "carry_out", "carry_out", "compact", "compact", "cluster"]
SERVICES += ["clean", "clean", "archive", "savepoint", "savepoint", "restore", "roll_back"]
SERVICES += ["delete_savepoint", "convert", "run_services", "tick", "drop_plan"]
CHANGE_LOOKS = [*LOOKS, "read_changes"]
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
_ALL_TIME = "9" * 17


class _Complaints(logging.Handler):
    """What services that ran by themselves had to say."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


class ServicesMachine(LsmMachine):
    """A table in memory with every service, inline or by hand."""

    concurrency = st.sampled_from(sorted(CONCURRENCY))
    inline = st.sampled_from([False, False, True])
    # What the table is created with beside what is drawn.
    more: Mapping[str, str] = {}

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        self.mode = data.draw(self.concurrency, label="concurrency")
        self.is_inline = data.draw(self.inline, label="inline")
        self.inline_mode = data.draw(st.sampled_from(MODES), label="inline mode")
        self.small_limit = data.draw(st.sampled_from(["0", "0", "104857600"]), label="small files")
        self.events: list[Event] = []
        self.saved: set[str] = set()
        # From here on every moment is readable, as far as the active timeline goes.
        self.promised = ""
        self.is_disturbed = False
        # Whether the order in which versions are folded has changed in the table's life.
        self.is_mixed = False
        self.complaints = _Complaints()
        logging.getLogger("lakebed.services.upkeep").addHandler(self.complaints)
        super().create(data)
        # Services of an empty table have little to do.
        steps = data.draw(st.permutations(STEPS), label="steps")
        self.plan_of_steps = ["upsert", "upsert", *steps]
        self.step = 0

    def make(self, shape: Shape) -> Table:
        self.storage = memory_storage()
        self.clock = ManualClock(step_ms=1)
        if self.mode == "non_blocking" and not (shape.on_read and shape.index == "bucket"):
            self.mode = "optimistic"
        self.model = ServicedTable(shape, non_blocking=self.mode == "non_blocking")
        inline = {**INLINE, "lakebed.compaction.mode": self.inline_mode}
        own = dict(inline if self.is_inline else BY_HAND)
        # Time goes by in leaps here; when tombstones expire is tried elsewhere.
        own["lakebed.tombstone.retention"] = "9999 days"
        properties = {**own, **self.more, "hoodie.write.concurrency.mode": CONCURRENCY[self.mode]}
        if shape.index != "bucket":
            # With 0 every write makes file groups, so that there is something to cluster.
            properties["hoodie.parquet.small.file.limit"] = self.small_limit
        return make(
            self.storage,
            self.clock,
            COLUMNS,
            key=shape.key,
            ordering=shape.ordering,
            partition_by=shape.partition_by,
            table_type=shape.table_type,
            index=shape.index,
            buckets=shape.buckets,
            layout=shape.layout,
            table_version=shape.version,
            properties=properties,
        )

    def again(self) -> Table:
        return reopen(self.storage, self.clock)

    # --- the model

    def state_at(self, until: str = _ALL_TIME) -> ServicedTable:
        """Return the model as of an instant."""
        now = self.model
        table = ServicedTable(self.shape, non_blocking=self.mode == "non_blocking")
        for event in self.events:
            if event.at <= until:
                event.apply(table)
        table.highest, table.patched, table.late = now.highest, now.patched, now.late
        table.dropped, table.appended = set(), {}
        return table

    def _done(self, instant: str) -> None:
        table = self.model
        assert instant > max((e.at for e in self.events), default=""), "instants go on"
        self._add(
            Event(
                instant,
                tuple(self.columns),
                None if table.dropped is None else frozenset(table.dropped),
                table.appended,
                groups=frozenset(table.groups),
                whole=None if table.keeps_logs else dict(table.versions),
                seen=frozenset(table.seen),
            )
        )
        table.dropped, table.appended = set(), {}
        self.sync()

    def _add(self, event: Event) -> None:
        self.events = sorted([*self.events, event], key=lambda event: event.at)
        rows = self.state_at(event.at).rows()
        self.once |= {(ident, row[COMMIT_TIME]) for ident, row in rows.items()}

    def sync(self) -> None:
        """Learn what services did by themselves, and go on from there."""
        snapshot = self.again()._now()
        known = {event.at for event in self.events}
        new = [c for c in snapshot.timeline.commits if c.requested not in known]
        for commit in new:
            assert commit.plan_action in WRITE_ACTIONS - COMMIT_ACTIONS, commit
            self._add(self._learned(snapshot, commit))
        self._rebuild()
        if self.is_inline:
            self._promise_last(INLINE_RETAINED)

    def _rebuild(self) -> None:
        seen = self.model.seen
        self.model = self.state_at()
        self.model.seen |= seen

    def _learned(self, snapshot: Snapshot, commit: TimelineInstant) -> Event:
        """Return what a compaction or clustering did."""
        at = commit.requested
        columns = next((e.columns for e in reversed(self.events) if e.at < at), tuple(COLUMNS))
        if commit.plan_action is not Action.COMPACTION or not self.model.keeps_logs:
            return Event(at, columns)
        data = snapshot.commits.active.read(commit, State.REQUESTED)
        plan = CompactionPlan.parse(data, commit.plan_action, "the plan")
        groups = {
            (o.group.partition, bucket_of_file_id(o.group.file_id))
            for o in plan.operations
            if o.kind is Kind.FULL
        }
        later = [event for event in self.events if event.at > at]
        groups = {group for group in groups if not any(e.drops(group[0]) for e in later)}
        before = self.state_at(at)
        idents = [ident for ident in before.versions if self.shape.group(*ident) in groups]
        based = {ident: before.compacted(before.versions[ident]) for ident in idents}
        return Event(at, columns, based=based)

    def _promise_last(self, retained: int) -> None:
        if len(self.events) > retained:
            self.promised = max(self.promised, self.events[-retained].at)

    def _take_back(self, gone: Callable[[Event], bool]) -> None:
        self.events = [event for event in self.events if not gone(event)]
        self._rebuild()
        names = set(self.again().schema.names)
        wanted = self.events[-1].columns if self.events else tuple(COLUMNS)
        assert {f.name for f in wanted} <= names
        self.columns = [f for f in self.columns if f.name in names]

    # --- steps

    @rule(data=st.data(), look=st.sampled_from(CHANGE_LOOKS))
    def act(self, data: st.DataObject, look: str) -> None:
        """Do what comes next, then look at the table in some way."""
        what = self.plan_of_steps[self.step % len(self.plan_of_steps)]
        self.step += 1
        self.turn(data)
        if what in ("bulk_insert", "insert", "upsert"):
            self.write(data, what)
        else:
            getattr(self, what)(data)
        getattr(self, look)(data)

    def turn(self, data: st.DataObject) -> None:
        """Say whose turn it is."""

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
        table = self.model
        return table.keeps_logs and isinstance(table, ServicedTable) and table.has_late(ident)

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
        """Return a plan up."""
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
        size = data.draw(st.sampled_from(["1", "2000", "1000000"]), label="bytes")
        self.table.cluster(
            partitions=[partition] if partition else None,
            options={"hoodie.clustering.plan.strategy.target.file.max.bytes": size},
        )
        self.sync()

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
            assert not self._is_promised(event.at)
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
            assert self.saved or self.more, "change data in native files is in the way, too"
            self.sync()
            return
        self.sync()
        self.shape = new
        self.is_mixed = self.is_mixed or mixes
        if drops:
            self.is_disturbed = True
            self._promise_last(1)
        self._rebuild()

    def run_services(self, data: st.DataObject) -> None:
        del data
        done = self.table.run_services()
        self.is_disturbed = self.is_disturbed or bool(done)
        self.sync()
        self._promise_last(INLINE_RETAINED if self.is_inline else 10)

    # --- looks

    def _is_promised(self, at: str) -> bool:
        first = self.again()._now().timeline.first_active
        return at >= self.promised and first is not None and at >= first

    def read_as_of(self, data: st.DataObject) -> None:
        if self.events:
            self._check_event(data.draw(st.sampled_from(self.events), label="as of"))

    def _check_event(self, event: Event) -> None:
        """Read a moment as it was, or be refused where it may be gone."""
        names = list(dict.fromkeys([*(f.name for f in event.columns), COMMIT_TIME]))
        try:
            read = self.again().read(columns=[*names, "_hoodie_partition_path"], as_of=event.at)
            found = self._by_ident(collect(read))
        except InvalidError:
            assert not self._is_promised(event.at)
            return
        state = self.state_at(event.at)
        if self.is_mixed and any(map(state.is_risky, state.versions)):
            return
        wanted = {i: {name: row.get(name) for name in names} for i, row in state.rows().items()}
        check_same(found, wanted, f"as of {event.at}")

    def read_changes(self, data: st.DataObject) -> None:
        """Read what changed between two commits, as rows and as change data."""
        ends = [at for at, done in self._completions() if self._is_promised(at) and done]
        if ends:
            one, other = (data.draw(st.sampled_from(ends), label="end") for _ in "ab")
            self._check_changes(min(one, other), max(one, other))

    def _completions(self) -> list[tuple[str, str | None]]:
        """Return when each commit that changes rows was completed, in order."""
        commits = self.again()._now().timeline.commits
        return [(c.requested, c.completion) for c in commits if c.plan_action in COMMIT_ACTIONS]

    def _shown_by_compactions(self, until: str) -> set[Ident]:
        """Return the keys of which a compaction may show another row than was there before it.

        Under Hudi's layout logs are folded before they meet the base file. So a late row that
        follows a delete by key, or a partial row, hides behind the base file until a compaction has rewritten that; one
        that was planned before the row came ends after it, and changes do not tell what it shows.
        """
        if not (self.shape.folds_logs_first or self.is_mixed):
            return set()
        odd: set[Ident] = set()
        late: set[Ident] = set()
        highest: dict[Ident, tuple[object, ...]] = {}
        for event in self.events:
            for ident, versions in event.appended.items() if event.at <= until else ():
                for version in versions:
                    if version.by_key or version.partial:
                        odd.add(ident)
                    if not version.by_key:
                        if version.order < highest.get(ident, version.order):
                            late.add(ident)
                        highest[ident] = max(version.order, highest.get(ident, version.order))
        return odd & late

    def _check_changes(self, since: str, until: str) -> None:
        """Replay the changes between two commits that are still readable."""
        done = dict(self._completions())
        state, wanted = self.state_at(since), self.state_at(until)
        if self.is_mixed and any(map(wanted.is_risky, wanted.versions)):
            return
        table = self.again()
        names = table.schema.names
        ends = {"since": done[since], "until": done[until]}

        unsure = self._shown_by_compactions(until)

        def full(rows: ServicedTable, *more: str) -> dict[Ident, Row]:
            wide = [*names, *more]
            held = {i: row for i, row in rows.rows().items() if i not in unsure}
            return {i: {name: row.get(name) for name in wide} for i, row in held.items()}

        def ident_of(row: Mapping[str, object]) -> Ident:
            return self.shape.partition(row), self.shape.record_key(row)

        def is_sure(row: Mapping[str, object]) -> bool:
            return ident_of(row) not in unsure

        told = collect(table.read(mode="cdc", **ends))
        changes = [change for change in told if is_sure(change["before"] or change["after"])]
        check_same(replay(full(state), changes, ident_of), full(wanted), f"{since} to {until}")
        written = {at for at, end in done.items() if ends["since"] < (end or "") <= ends["until"]}
        found = filter(is_sure, collect(table.read(columns=[*names, COMMIT_TIME], **ends)))
        check_incremental(list(found), full(wanted, COMMIT_TIME), written, ident_of)

    @invariant()
    def the_files_keep_their_promises(self) -> None:
        if not hasattr(self, "table"):
            return
        table = self.again()
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
            self._check_event(event)
        self.table = self.again()
        for pending in self._pending():
            self.table.compact(instant=pending.requested)
        self.clock.ms += 3_600_000
        self.table.clean(options=CLEANS[0])
        self.is_sound = False
        self.sync()
        check_same(self._by_ident(self.shown()), self._wanted(), "at the end")
        for event in self.events:
            self._check_event_loosely(event)
        check_named(self.again())
        report = self.again().verify()
        assert not [f for f in report.findings if f.severity is not Severity.NOTE], report

    def _check_event_loosely(self, event: Event) -> None:
        self.promised = _ALL_TIME
        self._check_event(event)


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

    def make(self, shape: Shape) -> Table:
        table = super().make(shape)
        self.behind = ManualClock(self.clock.ms - 500_000, step_ms=1, name="behind")
        # Random ids of two processes are never the same.
        self.behind._count = 1 << 40
        self.tables = [table, reopen(self.storage, self.behind)]
        return table

    def turn(self, data: st.DataObject) -> None:
        self.table = self.tables[data.draw(st.integers(0, 1), label="who")]

    def open_again(self, data: st.DataObject) -> None:
        """Keep both: what they remember of the table is what may be wrong."""
