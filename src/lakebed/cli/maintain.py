"""Commands that change a table: compact, clean, cluster, rollback, restore, archive, versions."""

from typing import Annotated

import typer
from rich.console import Console

from lakebed.cli.answer import answering
from lakebed.cli.arguments import (
    Changes,
    Debug,
    Json,
    Path,
    Settings,
    Spark,
    opened,
    opened_storage,
    pairs,
)
from lakebed.errors import InvalidError
from lakebed.model.clock import SystemClock
from lakebed.model.options.option import options_of
from lakebed.model.options.services import (
    ArchiveOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionMode,
    CompactionOptions,
    UpkeepOptions,
)
from lakebed.services.clean.reason import nothing_to_clean
from lakebed.table.config.properties_file import load_config
from lakebed.table.config.table_config import Layout, TableType
from lakebed.table.snapshot import load_snapshot

_MODE = options_of(UpkeepOptions)["mode"]
SETTINGS = {
    "compact": (CompactionOptions,),
    "clean": (CleanOptions,),
    "cluster": (ClusteringOptions,),
    "archive": (ArchiveOptions, CleanOptions),
}
"""The settings that `--set` changes, by command."""

Instant = Annotated[str, typer.Argument(help="The instant, as `lakebed timeline` lists it.")]
To = Annotated[int | None, typer.Option("--to", help="The target table version.")]
LayoutOption = Annotated[Layout | None, typer.Option("--layout", help="The target layout.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, without doing it.")
]


def compact(
    path: Path,
    mode: Annotated[
        CompactionMode, typer.Option(help=f"{_MODE.effect.capitalize()}.")
    ] = CompactionMode.FULL,
    schedule_only: Annotated[
        bool, typer.Option("--schedule-only", help="Only plan it; another process executes it.")
    ] = False,
    execute: Annotated[
        str | None, typer.Option("--execute", help="Execute the plan of this instant.")
    ] = None,
    widen: Annotated[
        bool,
        typer.Option("--widen", help="Merge all column groups into base files of all columns."),
    ] = False,
    changes: Changes = None,
    options: Settings = None,
    spark: Spark = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Merge the logs of each file group."""
    with answering(as_json=as_json, debug=debug) as answer:
        if schedule_only and execute is not None:
            raise InvalidError("--schedule-only and --execute: use only one of them")
        table = opened(path, options, spark=spark)
        if execute is None and table.config.table_type is TableType.COPY_ON_WRITE:
            sentence = (
                f"nothing to compact: {table.name} is COPY_ON_WRITE, whose writes leave no logs"
            )
            answer.give(None if schedule_only else (), lambda console: console.print(sentence))
            return
        if schedule_only:
            planned = table.schedule_compaction(mode=str(mode), widen=widen, options=pairs(changes))
            answer.give(planned, nothing="nothing to compact")
            return
        done = answer.working(
            "compacting",
            lambda: table.compact(
                mode=str(mode), instant=execute, widen=widen, options=pairs(changes)
            ),
        )

        def draw(console: Console) -> None:
            for compaction in done:
                console.print(str(compaction))
            if not done:
                console.print("nothing to compact")

        answer.give(done, draw)


def clean(
    path: Path,
    changes: Changes = None,
    options: Settings = None,
    spark: Spark = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete file versions that no retained instant needs."""
    with answering(as_json=as_json, debug=debug) as answer:
        table = opened(path, options, spark=spark)
        done = answer.working("cleaning", lambda: table.clean(options=pairs(changes)))
        if done is None:
            storage = opened_storage(path, options)
            snapshot = load_snapshot(storage, load_config(storage))
            settled = CleanOptions.of({**snapshot.config.properties, **(pairs(changes) or {})})
            reason = nothing_to_clean(snapshot, settled, SystemClock().now_ms())
            answer.give(None, nothing=reason)
            return
        answer.give(done)


def cluster(
    path: Path,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", help="Only this partition; may be repeated.")
    ] = None,
    changes: Changes = None,
    options: Settings = None,
    spark: Spark = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Merge small file groups into larger ones with disjoint key ranges."""
    with answering(as_json=as_json, debug=debug) as answer:
        table = opened(path, options, spark=spark)
        done = answer.working(
            "clustering",
            lambda: table.cluster(partitions=partition or None, options=pairs(changes)),
        )
        answer.give(done, nothing="nothing to cluster")


def archive(
    path: Path,
    changes: Changes = None,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Move old instants out of the active timeline."""
    with answering(as_json=as_json, debug=debug) as answer:
        table = opened(path, options)
        done = answer.working("archiving", lambda: table.archive(options=pairs(changes)))
        answer.give(done, nothing="nothing to archive")


def rollback(
    path: Path,
    instant: Instant,
    delete_plan: Annotated[
        bool, typer.Option("--delete-plan", help="Drop the plan of a pending compaction too.")
    ] = False,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Roll back an instant: a pending one, or the latest completed one."""
    with answering(as_json=as_json, debug=debug) as answer:
        table = opened(path, options)
        done = answer.working(
            "rolling back", lambda: table.rollback(instant, delete_plan=delete_plan)
        )
        answer.give(done)


def restore(
    path: Path,
    instant: Instant,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Restore the table to a savepoint; all later commits are lost."""
    with answering(as_json=as_json, debug=debug) as answer:
        table = opened(path, options)
        answer.give(answer.working("restoring", lambda: table.restore(instant)))


def upgrade(
    path: Path,
    to: To = None,
    layout: LayoutOption = None,
    dry_run: DryRun = False,
    options: Settings = None,
    spark: Spark = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Move the table to a newer version, or to another layout."""
    with answering(as_json=as_json, debug=debug) as answer:
        table = opened(path, options, spark=spark)
        done = answer.working(
            "upgrading", lambda: table.upgrade(to=to, layout=layout, dry_run=dry_run)
        )
        answer.give(done, nothing="nothing to change")


def downgrade(
    path: Path,
    to: To = None,
    layout: LayoutOption = None,
    dry_run: DryRun = False,
    options: Settings = None,
    spark: Spark = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Move the table to an older version, or to another layout."""
    with answering(as_json=as_json, debug=debug) as answer:
        table = opened(path, options, spark=spark)
        done = answer.working(
            "downgrading", lambda: table.downgrade(to=to, layout=layout, dry_run=dry_run)
        )
        answer.give(done, nothing="nothing to change")
