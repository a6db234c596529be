"""Explains why a clean found nothing to delete."""

from dataclasses import replace

from lakebed.format.names.instant_name import Action
from lakebed.model.options.services import CleanOptions, CleanPolicy
from lakebed.services.clean.clean_input import read_clean_input
from lakebed.services.clean.plan import plan_clean
from lakebed.table.config.table_config import TableType
from lakebed.table.snapshot import Snapshot


def nothing_to_clean(snapshot: Snapshot, options: CleanOptions, now_ms: int) -> str:
    """Return a sentence that explains why no file of the table can be deleted with these options."""
    return f"nothing to clean: {_reason(snapshot, options, now_ms)}"


def _reason(snapshot: Snapshot, options: CleanOptions, now_ms: int) -> str:
    commits = len(snapshot.timeline.commits)
    if not commits:
        return "the table has no commits yet"
    if pending := snapshot.timeline.pending(Action.CLEAN):
        return f"clean {pending[0].requested} of another engine is under way"
    if options.policy is CleanPolicy.KEEP_LATEST_COMMITS and commits <= options.commits_retained:
        has = "1 commit" if commits == 1 else f"{commits} commits"
        return (
            f"the table has {has}, and the last {options.commits_retained} are kept "
            "(hoodie.clean.commits.retained)"
        )
    inventory, zone = read_clean_input(snapshot), snapshot.config.zone
    young = plan_clean(inventory, replace(options, min_age_seconds=0), now_ms, zone)
    if young is not None:
        return (
            "the files that could be deleted were in use less than "
            f"{options.min_age_seconds} seconds ago (lakebed.clean.min.age.seconds)"
        )
    if all(len(slices) < 2 for slices in snapshot.groups.values()):
        on_read = snapshot.config.table_type is TableType.MERGE_ON_READ
        compact = "; compaction creates new versions" if on_read else ""
        return f"no file group has an older version{compact}"
    kept = {
        CleanPolicy.KEEP_LATEST_COMMITS: (
            f"the last {options.commits_retained} commits (hoodie.clean.commits.retained)"
        ),
        CleanPolicy.KEEP_LATEST_BY_HOURS: (
            f"the last {options.hours_retained} hours (hoodie.clean.hours.retained)"
        ),
        CleanPolicy.KEEP_LATEST_FILE_VERSIONS: (
            f"the last {options.file_versions_retained} versions of each file group "
            "(hoodie.clean.fileversions.retained)"
        ),
    }[options.policy]
    points = ", or a savepoint holds them" if inventory.savepoints else ""
    return f"all older files belong to {kept}, which are kept{points}"
