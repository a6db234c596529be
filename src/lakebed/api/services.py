"""Table services that users call, such as compaction, cleaning, savepoints and repair."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakebed.api.handle import TableHandle
from lakebed.api.option_conflicts import check_settings
from lakebed.api.progress import watched, watched_target
from lakebed.commit.hold import hold_table
from lakebed.errors import InvalidError, OptionError
from lakebed.model.options.option import Scope
from lakebed.model.options.registry import changeable, check_given
from lakebed.model.options.services import (
    ArchiveOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionOptions,
)
from lakebed.model.spelling import nearest
from lakebed.services.archive.execute import Archive, archive
from lakebed.services.clean.execute import Clean, clean
from lakebed.services.clean.reason import nothing_to_clean
from lakebed.services.clustering.execute import Clustering, cluster
from lakebed.services.compaction.execute import (
    Compaction,
    execute_compaction,
    execute_unless_done,
    pending_compactions,
)
from lakebed.services.compaction.schedule import Scheduled, schedule_compaction
from lakebed.services.restore.execute import Restore, restore
from lakebed.services.rollback.execute import Rollback, rollback
from lakebed.services.savepoint.execute import (
    Savepoint,
    delete_savepoint,
    savepoint,
    savepoints,
)
from lakebed.services.upgrade.execute import Upgrade, downgrade, upgrade
from lakebed.services.upkeep import Done, run_due
from lakebed.services.verify.findings import Report
from lakebed.services.verify.plan import RepairPlan, plan_repair
from lakebed.services.verify.repair import Repaired, repair
from lakebed.services.verify.verify import verify
from lakebed.table.config.properties_file import update_properties
from lakebed.table.config.table_config import TableConfig
from lakebed.table.snapshot import Snapshot
from lakebed.terminal.progress import showing
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair plan and its result; `done` is None if the plan was not executed."""

    plan: RepairPlan
    done: Repaired | None

    def __str__(self) -> str:
        """Return the result as a string, or the plan if it was not executed."""
        return str(self.plan) if self.done is None else str(self.done)


class TableServices(TableHandle):
    """The table services.

    The `options` of a call are Hudi options that override the table's options for that call.
    """

    def schedule_compaction(
        self,
        mode: str = "full",
        *,
        force: bool = True,
        groups: Sequence[str] | None = None,
        widen: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> Scheduled | None:
        """Plan a compaction for `compact` to execute, here or in another process.

        Args:
            mode: `"full"` merges each base file with its logs into a new base file, `"log"` merges
                the logs into one log, and `"hybrid"` uses the cheaper of the two per file group.
            force: Plan even if the table's compaction trigger is not due.
            groups: The column groups to compact; `""` is the default group. None means all groups.
            widen: Merge all column groups of each file group into one base file with all columns.
            options: Hudi options for this call.

        Returns:
            The plan and its instant, or None if no file group needs a compaction.
        """

        def work(target: WriteTarget) -> Scheduled | None:
            settled = CompactionOptions.of(_with(target, options))
            chosen = _known_groups(self._now(), groups)
            return schedule_compaction(
                target, settled, mode, force=force, column_groups=chosen, widen=widen
            )

        return self._act(work)

    def compact(
        self,
        mode: str = "full",
        instant: str | None = None,
        *,
        groups: Sequence[str] | None = None,
        widen: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> tuple[Compaction, ...]:
        """Execute the compaction plan `instant`, or plan one and execute all pending plans.

        Readers and writers are not blocked. Plans that another process is executing are skipped.

        Args:
            mode: As for `schedule_compaction`.
            instant: The plan to execute, as `schedule_compaction` returned it.
            groups: The column groups to compact; `""` is the default group. None means all groups.
            widen: As for `schedule_compaction`.
            options: Hudi options for this call.

        Returns:
            One result for each plan that was executed; empty if nothing needed compaction.
        """
        with showing("compact"):
            if instant is not None:
                return (self._act(lambda target: execute_compaction(target, instant)),)
            self.schedule_compaction(mode, groups=groups, widen=widen, options=options)
            done = [
                execute_unless_done(watched_target(self._target()), pending)
                for pending in pending_compactions(self._now())
            ]
            return tuple(compaction for compaction in done if compaction is not None)

    def cluster(
        self,
        *,
        partitions: Sequence[str | Mapping[str, object]] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Clustering | None:
        """Merge small file groups into larger ones with disjoint key ranges.

        Tables with a bucket index are rejected: their file groups are sorted already. A concurrent
        write to the same file groups fails with a ConflictError.

        Args:
            partitions: Paths or dicts of column values; None means all partitions.
            options: Hudi options for this call.
                `hoodie.clustering.plan.strategy.max.num.groups` bounds the work of one call.

        Returns:
            What was clustered, or None if there was nothing to cluster.
        """
        if isinstance(partitions, (str, Mapping)):
            partitions = [partitions]
        paths = None if partitions is None else {self._partition_path(p) for p in partitions}

        def work(target: WriteTarget) -> Clustering | None:
            return cluster(target, ClusteringOptions.of(_with(target, options)), paths)

        with showing("cluster"):
            return self._act(work)

    def clean(self, *, options: Mapping[str, str] | None = None) -> Clean | None:
        """Delete file versions that neither a retained commit nor a savepoint needs.

        Args:
            options: Hudi options for this call, such as `hoodie.clean.commits.retained`.

        Returns:
            What was deleted, or None if there was nothing to delete; the reason is logged.
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
        """Move old instants from the active timeline to the archived timeline.

        Args:
            options: Hudi options for this call, such as `hoodie.keep.min.commits`.

        Returns:
            What was moved, or None if nothing was due.
        """
        return self._act(lambda target: archive(target, ArchiveOptions.of(_with(target, options))))

    def run_services(self) -> tuple[Done, ...]:
        """Run the services that are due: compaction, cleaning and archiving."""
        return self._act(run_due)

    def rollback(self, instant: str, *, delete_plan: bool = False) -> Rollback:
        """Roll back a pending instant or the latest commit, and delete its files.

        Args:
            instant: The instant to roll back.
            delete_plan: Also delete the plan of a pending compaction or clustering, which is
                otherwise executed again.
        """
        name = _checked(instant)
        return self._act(lambda target: rollback(target, name, delete_plan=delete_plan))

    def savepoint(
        self, instant: str | None = None, *, user: str = "", comment: str = ""
    ) -> Savepoint:
        """Protect a commit from cleaning until its savepoint is deleted.

        Args:
            instant: The commit; None means the latest.
            user: The user to record with the savepoint.
            comment: A comment to record with the savepoint.
        """
        return self._act(lambda target: savepoint(target, instant, user, comment))

    def savepoints(self) -> tuple[Savepoint, ...]:
        """Return all savepoints, oldest first."""
        return savepoints(self._now())

    def delete_savepoint(self, instant: str) -> None:
        """Delete a savepoint, so that its files can be cleaned; the table's rows do not change.

        Args:
            instant: The instant of the savepoint.
        """
        name = _checked(instant)
        self._act(lambda target: delete_savepoint(target, name))

    def verify(self, *, quick: bool = False) -> Report:
        """Check the table and report all problems, without changing anything.

        Args:
            quick: Check names, sizes and footers only. Otherwise every key is read as well.

        Returns:
            The findings; `print` the report to read them.
        """
        return self._verify(quick=quick)

    def _verify(self, *, quick: bool, index_pages: bool = False) -> Report:
        target = self._target()
        with showing("verify"):
            return verify(
                target.storage,
                target.clock,
                watched(target.executor),
                quick=quick,
                merger=target.merger,
                index_pages=index_pages,
            )

    def repair(
        self,
        plan: RepairPlan | None = None,
        *,
        dry_run: bool = False,
        drop_lost: bool = False,
        keep_readable: bool = False,
    ) -> Repair:
        """Repair the problems that `verify` finds, or execute an earlier plan.

        A file that a commit refers to is never deleted.

        Args:
            plan: A plan that an earlier call with `dry_run=True` returned.
            dry_run: Return the plan without executing it.
            drop_lost: Also remove file slices that lack a file or cannot be read, in a separate
                commit. Their rows are lost. This reads every page of every file.
            keep_readable: With `drop_lost`, keep the rows of such slices that can still be read;
                they may be stale.
        """
        if keep_readable and not drop_lost:
            raise InvalidError("keep_readable needs drop_lost=True")
        if plan is not None and drop_lost:
            raise InvalidError(
                "drop_lost cannot be combined with a plan; pass it to the call that makes the plan"
            )
        chosen = plan or plan_repair(
            self._verify(quick=not drop_lost, index_pages=True),
            drop_lost=drop_lost,
            keep_readable=keep_readable,
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
        """Change table options for services, locks, concurrency and file sizes.

        Options that define rows, keys or file layout cannot be changed, or only by `upgrade`; see
        [Options](options.md).

        Args:
            properties: The options to change, with their new values.

        Raises:
            OptionError: An option is unknown or fixed, or its value is invalid.
        """
        changes = check_given(properties, Scope.LATER).stored

        def work(target: WriteTarget) -> None:
            with hold_table(target.storage, target.clock, target.commits) as hold:
                settled = {**hold.config.properties, **changes}
                check_settings(hold.storage, TableConfig.parse(settled, "set_properties"))
                update_properties(hold.storage, changes)

        self._act(work)

    def unset_properties(self, names: Sequence[str], *, if_exists: bool = False) -> None:
        """Remove table options, so that their defaults apply again.

        Args:
            names: Options that `set_properties` can change.
            if_exists: Ignore options that the table does not store.

        Raises:
            OptionError: An option is unknown or fixed, or the table does not store it.
        """
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise InvalidError(f"unset_properties: expected a list of names, found {names!r}")
        options = [changeable(name) for name in names]

        def work(target: WriteTarget) -> None:
            with hold_table(target.storage, target.clock, target.commits) as hold:
                stored = hold.config.properties
                gone: dict[str, str | None] = {}
                for name, option in zip(names, options, strict=True):
                    spelled = [
                        one for one in (option.stored_name, *option.all_names) if one in stored
                    ]
                    if not spelled and not if_exists:
                        raise OptionError(
                            f"table {hold.config.name!r} does not store the option {name}; it has its "
                            "default"
                        )
                    gone |= dict.fromkeys(spelled)
                settled = {one: value for one, value in stored.items() if one not in gone}
                check_settings(hold.storage, TableConfig.parse(settled, "unset_properties"))
                update_properties(hold.storage, gone)

        self._act(work)

    def upgrade(
        self, to: int | None = None, layout: str | None = None, *, dry_run: bool = False
    ) -> Upgrade:
        """Move the table to a newer table version or to another layout.

        Args:
            to: The table version; None keeps the current one.
            layout: `"lsm_tree"` or `"default"`; None keeps the current one.
            dry_run: Return what would be rewritten, without changing anything.
        """
        return self._act(lambda target: upgrade(target, to, layout, dry_run=dry_run))

    def downgrade(
        self, to: int | None = None, layout: str | None = None, *, dry_run: bool = False
    ) -> Upgrade:
        """Move the table to an older table version or to another layout.

        Args:
            to: The table version; None keeps the current one.
            layout: `"lsm_tree"` or `"default"`; None keeps the current one.
            dry_run: Return what would be rewritten, without changing anything.
        """
        return self._act(lambda target: downgrade(target, to, layout, dry_run=dry_run))

    def restore(self, savepoint: str) -> Restore:
        """Restore the table to a savepoint, permanently rolling back all later commits.

        Args:
            savepoint: The instant of the savepoint.
        """
        return restore(self._target(), _checked(savepoint))


def _with(target: WriteTarget, options: Mapping[str, str] | None) -> Mapping[str, str]:
    if not options:
        return target.config.properties
    return {**target.config.properties, **check_given(options, Scope.CREATE).values}


def _checked(instant: object) -> str:
    if not isinstance(instant, str) or not instant:
        raise InvalidError(f"instant {instant!r}: expected a string of digits")
    return instant


def _known_groups(snapshot: Snapshot, groups: Sequence[str] | None) -> frozenset[str] | None:
    """Return the names of column groups as a set; raise InvalidError for an unknown one."""
    if groups is None:
        return None
    if isinstance(groups, str):
        groups = [groups]
    known = snapshot.column_groups.names
    for name in groups:
        if name not in known:
            there = ", ".join(known[1:]) or "none besides the default group"
            raise InvalidError(
                f"table {snapshot.config.name!r}: no column group {name!r}{nearest(name, known[1:])}; "
                f"there are: {there}"
            )
    return frozenset(groups)
