"""What `repair` would do, from what `verify` found: no storage is touched here."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakebed.services.verify.findings import Finding, Mend, Report, Severity, plural

# In this order: a table that cannot be opened or locked comes first, and what a rolled-back
# instant left goes with it.
_ORDER: Final = {mend: at for at, mend in enumerate(Mend)}
_SENTENCES: Final = {
    Mend.WRITE_CHECKSUM: "write the checksum of {path} anew",
    Mend.RESTORE_PROPERTIES: "bring {path} back from its backup",
    Mend.DELETE_BACKUP: "delete {path}, which is not needed any more",
    Mend.DELETE_LOCK: "delete the lock file {path}, which nobody can read",
    Mend.RELEASE_LOCK: "take the lock {path} over from the dead writer, and release it",
    Mend.ROLL_BACK: "roll back {instant} and delete what it wrote",
    Mend.DELETE_FILE: "delete {path}, which no commit names",
    Mend.DELETE_HEARTBEAT: "delete the heartbeat {path}",
    Mend.DELETE_TEMP: "delete the temporary files of {instant}",
    Mend.WRITE_PARTITION_METADATA: "write {path}",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do; before it is done it is looked at again, under the table's lock."""

    mend: Mend
    path: str
    instant: str

    def __str__(self) -> str:
        return _SENTENCES[self.mend].format(path=self.path, instant=self.instant)


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The steps of a repair in their order, and the findings that no step mends."""

    url: str
    steps: tuple[Step, ...]
    left: tuple[Finding, ...]

    def __str__(self) -> str:
        if not self.steps and not self.left:
            return f"{self.url}: nothing to repair"
        return (
            f"{self.url}: {plural(len(self.steps), 'step')} to do, and "
            f"{plural(len(self.left), 'finding')} that repair cannot mend"
        )


def plan_repair(report: Report) -> RepairPlan:
    """Choose what to do about the findings of `report`; what a commit names is never touched."""
    steps = dict.fromkeys(_steps(report.findings))
    left = tuple(
        finding
        for finding in report.findings
        if finding.mend is None and finding.severity is not Severity.NOTE
    )
    ordered = sorted(steps, key=lambda step: (_ORDER[step.mend], step.instant, step.path))
    return RepairPlan(report.url, tuple(ordered), left)


def _steps(findings: Iterable[Finding]) -> Iterable[Step]:
    for finding in findings:
        if finding.mend is not None:
            yield Step(finding.mend, finding.path or "", finding.instant or "")
