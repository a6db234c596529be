"""What keeps a table in shape: compaction, clustering, cleaning, archiving, going back, checking, mending."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lakebed.api.progress import showing, watched, watched_target
from lakebed.api.settings import CHANGEABLE, check_settings
from lakebed.commit.hold import hold_table
from lakebed.errors import (
    ConflictError,
    InvalidError,
    LockedError,
    OptionError,
    TakenError,
    UnfinishedError,
)
from lakebed.model.options import canonical, check_options
from lakebed.services.archive.execute import Archive, archive
from lakebed.services.archive.options import ArchiveOptions
from lakebed.services.clean.execute import Clean, clean
from lakebed.services.clean.options import CleanOptions
from lakebed.services.clean.reason import nothing_to_clean
from lakebed.services.clustering.execute import Clustering, cluster
from lakebed.services.clustering.options import ClusteringOptions
from lakebed.services.compaction.execute import Compaction, execute_compaction, pending_compactions
from lakebed.services.compaction.options import CompactionOptions
from lakebed.services.compaction.schedule import Scheduled, schedule_compaction
from lakebed.services.restore.execute import Restore, restore
from lakebed.services.rollback.execute import Rollback, rollback
from lakebed.services.savepoint.execute import (
    Savepoint,
    delete_savepoint,
    savepoint,
    savepoints,
)
from lakebed.services.unfinished import finish_unfinished
from lakebed.services.upgrade.execute import Upgrade, downgrade, upgrade
from lakebed.services.upkeep import Done, run_due
from lakebed.services.verify.findings import Report
from lakebed.services.verify.plan import RepairPlan, plan_repair
from lakebed.services.verify.repair import Repaired, repair
from lakebed.services.verify.verify import verify
from lakebed.table.config.properties_file import update_properties
from lakebed.table.config.table_config import TableConfig
from lakebed.table.snapshot import Snapshot
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Repair:
    """What can be mended, and what was; None if nothing was done."""

    plan: RepairPlan
    done: Repaired | None

    def __str__(self) -> str:
        """Return a sentence or two."""
        return str(self.plan) if self.done is None else str(self.done)


class TableServices(ABC):
    """The services of a table; `Table` says where it lies.

    `options` of a call are Hudi's, and count for that call instead of the table's own.
    """

    @abstractmethod
    def _target(self) -> WriteTarget:
        """Return the table and who does the work."""

    @abstractmethod
    def _now(self) -> Snapshot:
        """Return the table as it is now."""

    @abstractmethod
    def _partition_path(self, given: str | Mapping[str, object]) -> str:
        """Spell a partition that a caller named."""

    def _act(self, work: Callable[[WriteTarget], Result]) -> Result:
        """Change the table; a rollback or restore that was left half done is finished first."""
        target = watched_target(self._target())
        try:
            return work(target)
        except UnfinishedError as error:
            log.warning("%s; finishing it", error)
            finish_unfinished(self._target())
            return work(watched_target(self._target()))

    def schedule_compaction(
        self,
        mode: str = "full",
        *,
        force: bool = True,
        options: Mapping[str, str] | None = None,
    ) -> Scheduled | None:
        """Plan a compaction for `compact` of this or another process; None if nothing needs one.

        `mode` is `full` (logs and base file become a new base file), `log` (logs become one
        log) or `hybrid` (per file group what pays more). Without `force` only if it is due by
        the table's trigger.
        """

        def work(target: WriteTarget) -> Scheduled | None:
            settled = CompactionOptions.parse(_with(target, options))
            return schedule_compaction(target, settled, mode, force=force)

        return self._act(work)

    def compact(
        self,
        mode: str = "full",
        instant: str | None = None,
        *,
        options: Mapping[str, str] | None = None,
    ) -> tuple[Compaction, ...]:
        """Compact: carry out the plan `instant`, or plan anew and carry out all that is planned.

        Readers and writers go on meanwhile. A plan that another process is at is left to it.
        """
        with showing("compact"):
            if instant is not None:
                return (self._act(lambda target: execute_compaction(target, instant)),)
            self.schedule_compaction(mode, options=options)
            return tuple(self._compact_pending())

    def _compact_pending(self) -> Iterator[Compaction]:
        for pending in pending_compactions(self._now()):
            try:
                yield execute_compaction(watched_target(self._target()), pending)
            except TakenError:
                continue
            except LockedError:
                raise
            except ConflictError:
                # Another process was faster, unless the plan is there still.
                if pending in pending_compactions(self._now()):
                    raise

    def cluster(
        self,
        *,
        partitions: Sequence[str | Mapping[str, object]] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Clustering | None:
        """Merge small file groups into large ones, each with a range of keys of its own.

        `partitions` are paths or dicts of column values, None is all. Tables with a bucket index
        are refused: they are sorted already. One call does up to
        `hoodie.clustering.plan.strategy.max.num.groups` portions, None says that nothing is left.
        A writer that changes rows of these file groups meanwhile is refused and may try again.
        """
        if isinstance(partitions, (str, Mapping)):
            partitions = [partitions]
        paths = None if partitions is None else {self._partition_path(p) for p in partitions}

        def work(target: WriteTarget) -> Clustering | None:
            return cluster(target, ClusteringOptions.parse(_with(target, options)), paths)

        with showing("cluster"):
            return self._act(work)

    def clean(self, *, options: Mapping[str, str] | None = None) -> Clean | None:
        """Delete file versions that no retained instant and no savepoint needs.

        None says that there are none; the log says why.
        """

        def work(target: WriteTarget) -> Clean | None:
            settled = CleanOptions.of(_with(target, options))
            done = clean(target, settled)
            if done is None:
                log.info(nothing_to_clean(self._now(), settled, target.clock.now_ms()))
            return done

        with showing("clean"):
            return self._act(work)

    def archive(self, *, options: Mapping[str, str] | None = None) -> Archive | None:
        """Move old instants from the active timeline to the archived one."""
        return self._act(lambda target: archive(target, ArchiveOptions.of(_with(target, options))))

    def run_services(self) -> tuple[Done, ...]:
        """Do everything that is due: compaction, cleaning, archiving."""
        return self._act(run_due)

    def rollback(self, instant: str, *, delete_plan: bool = False) -> Rollback:
        """Take an instant back, pending or the last completed one, with all that it wrote."""
        name = _checked(instant)
        return self._act(lambda target: rollback(target, name, delete_plan=delete_plan))

    def savepoint(
        self, instant: str | None = None, *, user: str = "", comment: str = ""
    ) -> Savepoint:
        """Keep a commit, by default the last, from being cleaned, until the savepoint is deleted."""
        return self._act(lambda target: savepoint(target, instant, user, comment))

    def savepoints(self) -> tuple[Savepoint, ...]:
        """Return all savepoints, oldest first."""
        return savepoints(self._now())

    def delete_savepoint(self, instant: str) -> None:
        """Let a savepoint go; the table is not changed by that."""
        name = _checked(instant)
        self._act(lambda target: delete_savepoint(target, name))

    def verify(self, *, quick: bool = False) -> Report:
        """Check all that can be checked and say in words what is wrong; nothing is changed.

        `quick` looks at names, sizes and footers; otherwise every key is read, too.
        """
        target = self._target()
        with showing("verify"):
            return verify(
                target.storage,
                target.clock,
                watched(target.executor),
                quick=quick,
                merger=target.merger,
            )

    def repair(
        self,
        plan: RepairPlan | None = None,
        *,
        dry_run: bool = False,
        drop_lost: bool = False,
        keep_readable: bool = False,
    ) -> Repair:
        """Mend what can be mended: what `verify` found now, or a plan that was shown before.

        With `dry_run` the plan is made and nothing is done. Nothing that a commit names is ever
        deleted. With `drop_lost` each file slice that lacks a file, or whose files cannot be
        read, is ended by a commit of its own: its rows are given up, or with `keep_readable`
        those that can still be read are kept, which may be stale. Every page is read for that.
        """
        if keep_readable and not drop_lost:
            raise InvalidError("keep_readable: say drop_lost=True, too; it ends damaged slices")
        if plan is not None and drop_lost:
            raise InvalidError("drop_lost: cannot be combined with a plan, which says it already")
        chosen = plan or plan_repair(
            self.verify(quick=not drop_lost), drop_lost=drop_lost, keep_readable=keep_readable
        )
        if dry_run or not chosen.steps:
            return Repair(chosen, None)
        target = self._target()
        done = repair(
            target.storage,
            target.clock,
            chosen,
            target.commits,
            executor=target.executor,
            merger=target.merger,
        )
        return Repair(chosen, done)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Change what a table does by itself, or how its writers share it; see docs/options.md.

        Only what steers services, locks and concurrency, and file sizes: what rows, keys and
        files are is settled when a table is created (or by `upgrade`).
        """
        check_options(properties)
        for name in properties:
            if not name.startswith(CHANGEABLE):
                raise OptionError(f"option {name}: settled when the table was created")

        def work(target: WriteTarget) -> None:
            with hold_table(target.storage, target.clock, target.commits) as hold:
                settled = {**hold.config.properties, **_spelled(properties)}
                check_settings(hold.storage, TableConfig.parse(settled, "set_properties"))
                update_properties(hold.storage, _spelled(properties))

        self._act(work)

    def upgrade(
        self, to: int | None = None, layout: str | None = None, *, dry_run: bool = False
    ) -> Upgrade:
        """Move to a newer table version or another layout; `dry_run` only says what it rewrites."""
        return self._act(lambda target: upgrade(target, to, layout, dry_run=dry_run))

    def downgrade(
        self, to: int | None = None, layout: str | None = None, *, dry_run: bool = False
    ) -> Upgrade:
        """Move to an older table version or another layout; `dry_run` only says what it rewrites."""
        return self._act(lambda target: downgrade(target, to, layout, dry_run=dry_run))

    def restore(self, savepoint: str) -> Restore:
        """Go back to a savepoint for good: everything after it is taken back."""
        return restore(self._target(), _checked(savepoint))


def _spelled(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: canonical(name, value) for name, value in properties.items()}


def _with(target: WriteTarget, options: Mapping[str, str] | None) -> Mapping[str, str]:
    if not options:
        return target.config.properties
    check_options(options)
    return {**target.config.properties, **options}


def _checked(instant: object) -> str:
    if not isinstance(instant, str) or not instant:
        raise InvalidError(f"instant {instant!r}: want its digits as text")
    return instant
