"""Commands that find problems and repair them: verify, repair.

They work on storage, because a table with invalid properties cannot be opened.
"""

import sys
from typing import Annotated

import typer
from rich.console import Console

from lakebed.api.progress import watched
from lakebed.cli.answer import PROBLEM, Answer, answering
from lakebed.cli.arguments import Debug, Json, Path, Settings, Spark, executor, opened_storage
from lakebed.errors import InvalidError
from lakebed.model.clock import SystemClock
from lakebed.services.verify.findings import Report
from lakebed.services.verify.plan import RepairPlan, plan_repair
from lakebed.services.verify.repair import Repaired
from lakebed.services.verify.repair import repair as repair_table
from lakebed.services.verify.verify import verify as verify_table
from lakebed.storage.storage import Storage

_MAX_FINDINGS = 50


def verify(
    path: Path,
    quick: Annotated[
        bool, typer.Option("--quick", help="Names, sizes and footers only; keys are not read.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show all findings.")] = False,
    options: Settings = None,
    spark: Spark = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Check the table and report problems; exit with 1 if there are any."""
    with answering(as_json=as_json, debug=debug) as answer:
        report = _verified(answer, opened_storage(path, options), quick=quick, spark=spark)
        shown = report.findings if everything else report.findings[:_MAX_FINDINGS]

        def draw(console: Console) -> None:
            for finding in shown:
                console.print(str(finding))
                if finding.mend is not None:
                    console.print("  repair can fix it")
                if finding.advice:
                    console.print(f"  {finding.advice}")
            if len(shown) < len(report.findings):
                console.print(f"... and {len(report.findings) - len(shown)} more; --all shows them")
            console.print(str(report))

        answer.give(report, draw)
        if not report.is_sound:
            raise typer.Exit(PROBLEM)


def repair(
    path: Path,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    drop_lost: Annotated[
        bool, typer.Option("--drop-lost", help="Remove damaged file slices; their rows are lost.")
    ] = False,
    keep_readable: Annotated[
        bool,
        typer.Option("--keep-readable", help="With --drop-lost: keep rows that can be read."),
    ] = False,
    options: Settings = None,
    spark: Spark = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the planned repairs, ask, and execute them; exit with 1 if problems remain."""
    with answering(as_json=as_json, debug=debug) as answer:
        if keep_readable and not drop_lost:
            raise InvalidError("--keep-readable needs --drop-lost")
        storage = opened_storage(path, options)
        report = _verified(answer, storage, quick=not drop_lost, spark=spark)
        plan = plan_repair(report, drop_lost=drop_lost, keep_readable=keep_readable)
        if not as_json:
            _draw_plan(answer.out, plan)
        done: Repaired | None = None
        if plan.steps and (yes or (not as_json and _asked())):
            runs = executor(spark=spark)
            done = answer.working(
                "repairing", lambda: repair_table(storage, SystemClock(), plan, executor=runs)
            )
        answer.give({"plan": plan, "repaired": done}, lambda console: _draw_done(console, done))
        unfinished = bool(plan.steps) and (done is None or bool(done.skipped))
        if unfinished or plan.left:
            raise typer.Exit(PROBLEM)


def _verified(answer: Answer, storage: Storage, *, quick: bool, spark: bool) -> Report:
    runs = watched(executor(spark=spark))
    return answer.working(
        "verifying", lambda: verify_table(storage, SystemClock(), runs, quick=quick)
    )


def _asked() -> bool:
    return sys.stdin.isatty() and typer.confirm("Do it?", err=True)


def _draw_plan(console: Console, plan: RepairPlan) -> None:
    for number, step in enumerate(plan.steps, 1):
        console.print(f"{number}. {step}")
    for finding in plan.left:
        console.print(f"cannot repair: {finding.message}")
        if finding.advice:
            console.print(f"  {finding.advice}")
    console.print(str(plan))


def _draw_done(console: Console, done: Repaired | None) -> None:
    if done is not None:
        console.print(str(done))
