"""Plans a repair from the findings of `verify`, without access to storage."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakebed.format.names.data_names import parse_data_name
from lakebed.services.verify.findings import DAMAGE, Finding, Mend, Report, Severity
from lakebed.table.files.file_group import join_path
from lakebed.terminal.text import plural

# Steps run in this order: first those without which the table cannot be opened or locked. The
# leftovers of a rolled-back instant are removed with it.
_ORDER: Final = {mend: at for at, mend in enumerate(Mend)}
_SENTENCES: Final = {
    Mend.WRITE_CHECKSUM: "rewrite the checksum of {path}",
    Mend.RESTORE_PROPERTIES: "restore {path} from its backup",
    Mend.DELETE_BACKUP: "delete {path}, which is no longer needed",
    Mend.DELETE_LOCK: "delete the lock file {path}, which cannot be read",
    Mend.RELEASE_LOCK: "take over the lock {path} from the dead writer and release it",
    Mend.ROLL_BACK: "roll back {instant} and delete what it wrote",
    Mend.DELETE_FILE: "delete {path}, which is in no commit",
    Mend.DELETE_HEARTBEAT: "delete the heartbeat {path}",
    Mend.DELETE_TEMP: "delete the temporary files of {instant}",
    Mend.WRITE_PARTITION_METADATA: "write {path}",
    Mend.WRITE_FILE_RUN: "rewrite {path} from its commit, or delete it if the commit no longer exists",
    Mend.WRITE_STATISTICS: "rewrite {path} from footers, or delete it if its files no longer exist",
    Mend.DROP_LOST: "remove the damaged file slice {path}, and lose all its rows",
    Mend.KEEP_READABLE: (
        "remove the damaged file slice {path}, and keep the rows of it that can still be read, "
        "which may be stale"
    ),
    Mend.COMPLETE_KEYS: (
        "rewrite base files of {path} with the keys that they lack and other column groups have"
    ),
    Mend.BUILD_INDEX: "rebuild the index {path}",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a repair; it is checked again under the table's lock before it is executed."""

    mend: Mend
    path: str
    instant: str

    def __str__(self) -> str:
        return _SENTENCES[self.mend].format(path=self.path, instant=self.instant)


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The steps of a repair in order, and the findings that no step resolves."""

    url: str
    steps: tuple[Step, ...]
    left: tuple[Finding, ...]

    def __str__(self) -> str:
        if not self.steps and not self.left:
            return f"{self.url}: nothing to repair"
        return (
            f"{self.url}: {plural(len(self.steps), 'step')} to do, and "
            f"{plural(len(self.left), 'finding')} that repair cannot fix"
        )


def plan_repair(
    report: Report, *, drop_lost: bool = False, keep_readable: bool = False
) -> RepairPlan:
    """Choose the steps for the findings of `report`; files that a commit lists are never touched.

    With `drop_lost` the slices of files that are lost or cannot be read are replaced as well.
    """
    drop = None
    if drop_lost:
        drop = Mend.KEEP_READABLE if keep_readable else Mend.DROP_LOST
    steps = dict.fromkeys(_steps(report.findings, drop))
    left = tuple(
        finding
        for finding in report.findings
        if finding.mend is None
        and finding.severity is not Severity.NOTE
        and (drop is None or _damaged_group(finding) is None)
    )
    ordered = sorted(steps, key=lambda step: (_ORDER[step.mend], step.instant, step.path))
    return RepairPlan(report.url, tuple(ordered), left)


def _steps(findings: Iterable[Finding], drop: Mend | None) -> Iterable[Step]:
    for finding in findings:
        if finding.mend is Mend.COMPLETE_KEYS:
            yield Step(finding.mend, _group_path(finding.path or ""), "")
        elif finding.mend is not None:
            yield Step(finding.mend, finding.path or "", finding.instant or "")
        elif drop is not None and (group := _damaged_group(finding)) is not None:
            yield Step(drop, group, "")


def _damaged_group(finding: Finding) -> str | None:
    """Return the path of the file group that `finding` shows to be damaged, if any."""
    if finding.code not in DAMAGE or finding.severity is not Severity.ERROR or not finding.path:
        return None
    # If several files of a slice cannot be read together, the path is the file group's.
    return _group_path(finding.path)


def _group_path(path: str) -> str:
    """Return the path of the file group that a file belongs to, whatever its column group."""
    partition, _, text = path.rpartition("/")
    name = parse_data_name(text)
    return path if name is None else join_path(partition, name.file_id)
