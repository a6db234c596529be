"""Spell the measured values as docs/benchmarks.md and its figures; nothing here is measured."""

import os
import pathlib
import platform
import statistics

import pyarrow as pa
from lookup_tables import LOAD_HEADER, PAGES_HEADER, SEED, load_rows, pages_rows
from plots import save_chart

MB = 1e6
MIB = 2**20
SEED_SAVED_PERCENT = 23.08


def targets(results: dict) -> list[tuple[str, float, float, str, float | None]]:
    """Give each target: what, the value, what is wanted, `>` at least or `<` at most, the goal."""
    peers, kernel, lookup = results["peers"], results["kernel"], results["lookup"]
    hudi = peers["hudi"]
    one, ten = results["memory"]
    peak = max(peers["first"]["worker_peak_bytes"], peers["last"]["worker_peak_bytes"])
    return [
        ("kernel, 2 runs, against pyarrow", kernel["2_runs"]["ratio"], 10, ">", None),
        ("kernel, 9 runs, against pyarrow", kernel["9_runs"]["ratio"], 5, ">", None),
        ("bulk_insert against Hudi", hudi["best"] / best(peers, "seconds"), 2.5, ">", 3),
        ("upsert against Hudi", steady(hudi) / steady_ours(peers), 3, ">", 4),
        ("scan against Hudi", min(hudi["scans"]) / best(peers, "scans"), 3, ">", 5),
        ("scan of Hudi's own table, Avro logs, against Hudi", their_scan(peers), 2, ">", None),
        (
            "Avro rows to columns, against fastavro",
            results["avro"]["decode"]["ratio"],
            10,
            ">",
            None,
        ),
        ("full compaction against Hudi", *compaction_ratio(peers, "full"), ">", 15),
        ("full compaction against its floor", floor_ratio(peers), 2, "<", None),
        ("log compaction against Hudi", *compaction_ratio(peers, "log"), ">", None),
        ("log bytes of Hudi's Avro logs", log_share(peers, "hudi"), 1 / 3, "<", None),
        ("one key against Hudi", query_ratio(results, "hudi"), 100, ">", None),
        ("one key, table ten times as large", flatness(lookup), 1.5, "<", None),
        (
            "memory of a merge, ten times the rows",
            ten["merge_bytes"] / one["merge_bytes"],
            1.2,
            "<",
            None,
        ),
        ("worker memory (MB)", peak / MB, 600, "<", None),
        ("opening 1,000 instants against listing", results["opened"]["ratio"], 3, "<", None),
        ("planning 10,000 files against parsing", results["opened"]["plan_ratio"], 3, "<", None),
    ]


def check(results: dict) -> list[str]:
    """Name the targets that were missed."""
    return [
        f"{what}: {value:.2f}, wanted {'at least' if sense == '>' else 'at most'} {wanted:.2f}"
        for what, value, wanted, sense, _ in targets(results)
        if (value < wanted if sense == ">" else value > wanted)
    ]


def best(peers: dict, name: str) -> float:
    """Give our best: the mean of the bests of both turns, for Hudi has had one turn only."""
    return statistics.mean(min(peers[turn][name]) for turn in ("first", "last"))


def steady(peer: dict) -> float:
    """Give the best upsert after the first, which warms up."""
    return min(peer["upserts"][1:])


def steady_ours(peers: dict) -> float:
    """Give our best upsert, the mean of both turns."""
    return statistics.mean(steady(peers[turn]) for turn in ("first", "last"))


def compaction_ratio(peers: dict, mode: str) -> tuple[float, float]:
    """Give how much faster than Hudi as it comes we compact, best against best, and the target."""
    ours = min(peers["compaction"][mode])
    if mode == "log":
        return peers["hudi"]["log_compaction"] / ours, 5
    return min(peers["hudi"]["compactions"]) / ours, 8


def their_scan(peers: dict) -> float:
    """Give how much faster than Hudi we scan the table that it made, best against best."""
    return min(peers["hudi"]["scans"]) / min(peers["migration"]["before"]["scans"])


def migrating(results: dict) -> str:
    """Tell what taking over a table of Hudi's costs and gives."""
    peers, avro = results["peers"], results["avro"]
    moved = peers["migration"]
    rows = [
        [
            when,
            many(moved[name]["scans"]),
            many(moved[name]["streams"]),
            f"{moved[name]['bytes'] / MB:,.0f} MB",
        ]
        for when, name in (("as Hudi left it", "before"), ("after our first compaction", "after"))
    ]
    return "\n".join(
        [
            "## A table that Hudi made",
            "",
            f"The same rows, written by Hudi as it comes ({results['rows']:,} rows, "
            f"{len(peers['hudi']['upserts'])} upserts in Avro logs, nothing compacted), read by us. "
            f"Hudi's own scans of it took {many(peers['hudi']['scans'])} s, "
            f"{their_scan(peers):.1f} times ours at best. Our first compaction of it took "
            f"{moved['compaction']:.2f} s; Hudi's own {many(peers['hudi']['compactions'])} s.",
            "",
            table(
                ["", "scan through Spark (s)", "scan in process (s)", "files of a snapshot"], rows
            ),
            "",
            f"Avro rows become columns {avro['decode']['ratio']:.0f} times as fast as with fastavro, and "
            f"columns become Avro rows {avro['encode']['ratio']:.0f} times as fast.",
            "",
        ]
    )


def floor_ratio(peers: dict) -> float:
    """Give our full compaction as a multiple of decoding and encoding its files."""
    return min(peers["compaction"]["full"]) / min(peers["compaction"]["all"])


def log_share(peers: dict, name: str) -> float:
    """Give our log bytes as a share of Hudi's."""
    return peers["first"]["log_bytes"] / peers[name]["log_bytes"]


def query_ratio(results: dict, name: str) -> float:
    """Give how many of our lookups fit into one query of Hudi, both in the middle."""
    seconds = statistics.median(results["peers"][name]["queries"])
    return 1000 * seconds / results["lookup"]["small"]["ms"]["p50"]


def flatness(lookup: dict) -> float:
    """Give how much longer a key takes in the larger table."""
    return lookup["large"]["ms"]["p50"] / lookup["small"]["ms"]["p50"]


def table(head: list[str], rows: list[list[str]]) -> str:
    """Draw a table of Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def many(seconds: list[float]) -> str:
    """List the seconds of all runs."""
    return ", ".join(f"{value:.2f}" for value in seconds)


def kib(size: float) -> str:
    """Spell bytes as KiB."""
    return f"{size / 1024:,.0f} KiB"


def summary(results: dict) -> str:
    """Give one line per target."""
    rows = []
    for what, value, wanted, sense, goal in targets(results):
        limit = f"{'≥' if sense == '>' else '≤'} {wanted:.4g}"
        met = value >= wanted if sense == ">" else value <= wanted
        rows.append(
            [
                what,
                f"{value:.3g}",
                limit + (f", goal {goal}" if goal else ""),
                "yes" if met else "**no**",
            ]
        )
    return table(["", "measured", "wanted", "met"], rows)


def writing(results: dict, figures: pathlib.Path) -> str:
    """Tell of bulk_insert, upsert and what they leave."""
    peers, rows, batch = results["peers"], results["rows"], results["batch"]
    first, hudi, tuned, parquet = (peers[n] for n in ("first", "hudi", "tuned", "parquet_logs"))
    insert = [
        ("Lakebed", best(peers, "seconds")),
        ("Hudi 1.2.0 as it comes", hudi["best"]),
        ("Hudi 1.2.0 tuned", tuned["best"]),
    ]
    upsert = [
        ("Lakebed", steady_ours(peers)),
        ("Hudi 1.2.0 as it comes", steady(hudi)),
        ("Hudi 1.2.0 tuned", steady(tuned)),
        ("Hudi 1.2.0 tuned, Parquet logs", steady(parquet)),
    ]
    logs = [
        ("Lakebed", first["log_bytes"] / MB),
        ("Hudi 1.2.0, Avro logs", hudi["log_bytes"] / MB),
        ("Hudi 1.2.0, Parquet logs", parquet["log_bytes"] / MB),
    ]
    inserts = [
        [name, f"{least:.2f} s", many(s), str(peer["files"]), f"{peer['bytes'] / MB:.1f} MB"]
        for (name, least), peer, s in (
            (insert[0], first, first["seconds"] + peers["last"]["seconds"]),
            (insert[1], hudi, hudi["seconds"]),
            (insert[2], tuned, tuned["seconds"]),
        )
    ]
    upserts = [
        [
            name,
            f"{peer['upserts'][0]:.2f} s",
            f"{least:.2f} s",
            f"{statistics.median(s):.2f} s",
            str(peer["log_files"]),
            f"{peer['log_bytes'] / MB:.1f} MB",
        ]
        for (name, least), peer, s in (
            (upsert[0], first, first["upserts"][1:] + peers["last"]["upserts"][1:]),
            (upsert[1], hudi, hudi["upserts"][1:]),
            (upsert[2], tuned, tuned["upserts"][1:]),
            (upsert[3], parquet, parquet["upserts"][1:]),
        )
    ]
    kept = results["peers"]["storage"]
    return f"""## bulk_insert

The loan ledger: {rows:,} rows × 12 columns, key `user_id, id`, in random order, from Parquet into a new MERGE_ON_READ table of 4
buckets, meta columns and commit included; `local[2]`, warm, best of several runs. We run before and after Hudi, and our best is the mean of both turns' bests, here and
below. Hudi 1.2.0 (on its Spark 3.5) runs with the same
bucket index, once as it comes and once tuned for speed: no metadata table, the smallest bloom filter, zstd as ours, for reads
2 GiB of memory to merge in and the bucket index named. Our files are sorted by key; Hudi's are not.

{save_chart(figures, "bulk-insert", f"bulk_insert of {rows:,} rows", insert, "s")}

{table(["", "best", "all runs", "files", "size"], inserts)}

**{hudi["best"] / best(peers, "seconds"):.2f} times as fast as Hudi as it comes**, {tuned["best"] / best(peers, "seconds"):.2f} times as fast as Hudi tuned.

## upsert

Eight upserts of {batch:,} rows each into that table, one after the other, nothing compacted; nine rows in ten change an old row.
The first warms up and is told apart; the best and the middle are of the other seven.

{save_chart(figures, "upsert", f"upsert of {batch:,} rows", upsert, "s")}

{table(["", "first", "best", "middle", "log files", "log bytes"], upserts)}

**{steady(hudi) / steady_ours(peers):.2f} times as fast as Hudi as it comes**, {steady(tuned) / steady_ours(peers):.2f} times as fast as Hudi tuned.

{save_chart(figures, "log-bytes", "Log bytes of the 8 upserts", logs, "MB")}

Our logs take {100 * log_share(peers, "hudi"):.0f} % of the bytes of Hudi's Avro logs, and {100 * log_share(peers, "parquet_logs"):.0f} % of its Parquet logs. Each of our tasks writes
its own log, so there are as many per file group and upsert as there were tasks.

## Sorted against unsorted storage

The ledger as one Parquet file, sorted by record key and in order of arrival, same writer, same settings (the seed saw
{SEED_SAVED_PERCENT} % less on its own loan ledger):

{table(["", "as it arrived", "sorted", "saved"], [[name, f"{kept[key]['arrived_bytes'] / MB:.1f} MB", f"{kept[key]['sorted_bytes'] / MB:.1f} MB", f"**{kept[key]['saved_percent']:.2f} %**"] for name, key in (("12 columns", "columns"), ("with the record key", "with_key"))])}
"""


def reading(results: dict, figures: pathlib.Path) -> str:
    """Tell of the scan and of the kernel."""
    peers, kernel = results["peers"], results["kernel"]
    hudi, tuned, parquet = (peers[name] for name in ("hudi", "tuned", "parquet_logs"))
    sides = [
        ("Lakebed", peers["first"]["scans"] + peers["last"]["scans"], best(peers, "scans")),
        (
            "Lakebed in process",
            peers["first"]["streams"] + peers["last"]["streams"],
            best(peers, "streams"),
        ),
        ("Hudi 1.2.0 as it comes", hudi["scans"], min(hudi["scans"])),
        ("Hudi 1.2.0 tuned", tuned["scans"], min(tuned["scans"])),
        ("Hudi 1.2.0 tuned, Parquet logs", parquet["scans"], min(parquet["scans"])),
    ]
    chart = save_chart(
        figures,
        "scan",
        "Scan of 3 columns, 8 upserts not compacted",
        [(name, least) for name, _, least in sides],
        "s",
        ours=2,
    )
    ratio = best(peers, "scans")
    kernels = [
        (f"{side}, {runs} runs", kernel[f"{runs}_runs"][f"{name}_seconds"])
        for side, name in (("Lakebed", "lakebed"), ("pyarrow, keys alone", "pyarrow"))
        for runs in (2, 9)
    ]
    sorting = results["sorting"]
    merged = [
        [
            f"{runs}",
            f"{k['lakebed_seconds']:.3f} s",
            f"{k['million_rows_a_second']} M",
            f"{k['pyarrow_seconds']:.3f} s (**{k['ratio']} times**)",
            *(
                f"{other[f'{name}_seconds']:.3f} s"
                f" ({other[f'{name}_seconds'] / other['lakebed_seconds']:.1f} times)"
                for name in ("tables", "unsorted")
            ),
        ]
        for runs in (2, 9)
        for k, other in [(kernel[f"{runs}_runs"], sorting[f"{runs}_runs"])]
    ]
    return f"""## Snapshot scan

That table after its 8 upserts: sum of `amount`, greatest `ts` and `balance`, number of rows, so that three columns of every merged row
cross to Spark. Opening the table is included; all engines gave the same values. Without a session the same scan streams
through one process.

{chart}

{table(["", "first", "best", "all runs"], [[n, f"{s[0]:.2f} s", f"{least:.2f} s", many(s)] for n, s, least in sides])}

**{min(hudi["scans"]) / ratio:.2f} times as fast as Hudi as it comes**, {min(tuned["scans"]) / ratio:.2f} times as fast as Hudi tuned.

## The merge kernel alone

{kernel["rows"]:,} keys in sorted runs, {100 * kernel["repeated"]:.0f} % of them in two, merged window by window and one row kept of each key. pyarrow does the same by concat,
sort and dedupe: in its tightest form on the key column alone (its sort gains much where the rows come in sorted runs, and neighbours
are compared by hand), and as tables (`sort_by` key and run, `group_by` key); the last column is that tightest form for keys that do not
come in runs. In memory, one core, compiled before the clock starts.

{save_chart(figures, "kernel", "Merging keys", kernels, "s", ours=2)}

{table(["runs", "Lakebed", "keys a second", "pyarrow, keys alone", "pyarrow, tables", "pyarrow, keys in no order"], merged)}
"""


def compacting(results: dict, figures: pathlib.Path) -> str:
    """Tell of compaction."""
    peers = results["peers"]
    ours, hudi, tuned, parquet = (
        peers[name] for name in ("compaction", "hudi", "tuned", "parquet_logs")
    )
    sides = [
        ("Lakebed on Spark", ours["full"]),
        ("Lakebed in process", ours["process"]),
        ("floor: decode and encode, no merge", ours["all"]),
        ("the same, encoding only what is kept", ours["kept"]),
        ("Hudi 1.2.0 as it comes", hudi["compactions"]),
        ("Hudi 1.2.0 tuned", tuned["compactions"]),
        ("Hudi 1.2.0 tuned, Parquet logs", parquet.get("compactions", [])),
    ]
    sides = [(name, seconds) for name, seconds in sides if seconds]
    bars = [(name, min(seconds)) for name, seconds in sides]
    chart = save_chart(
        figures, "compaction", "Full compaction, 8 upserts on 4 file groups", bars, "s", ours=2
    )
    full, log = min(ours["full"]), min(ours["log"])
    return f"""## Compaction

That table with its 8 upserts, four file groups, planning and commit included; every run on a fresh copy. The floor is what pyarrow alone takes to
decode the same files and encode their rows again, on two threads, with the same settings.

{chart}

{table(["full", "best", "all runs"], [[n, f"{min(s):.2f} s", many(s)] for n, s in sides])}

**{min(hudi["compactions"]) / full:.1f} times as fast as Hudi as it comes**, {min(tuned["compactions"]) / full:.1f} times as fast as Hudi tuned; **{floor_ratio(peers):.2f} times the floor** ({full / min(ours["kept"]):.2f} times if the
floor encodes only the rows that are kept).

Logs joined into one per file group: {log:.2f} s. Hudi does that only with a write: it adds {hudi["log_compaction"]:.2f} s to an upsert of one row as it comes
(**{hudi["log_compaction"] / log:.1f} times as long**), {tuned["log_compaction"]:.2f} s tuned.
"""


def finding(results: dict, figures: pathlib.Path) -> str:
    """Tell of single keys."""
    peers, lookup = results["peers"], results["lookup"]
    small, large, first = lookup["small"], lookup["large"], lookup["first"]
    hudi, tuned = (statistics.median(peers[name]["queries"]) for name in ("hudi", "tuned"))
    chart = save_chart(
        figures,
        "lookup-bytes",
        "Bytes read to find one key, footers included",
        [
            (name, found["bytes"]["p50"] / 1024)
            for name, found in reversed(lookup["variants"].items())
        ],
        "KiB",
    )
    sizes = [
        [
            f"{of['rows']:,}",
            f"{of['ms']['p50']:.1f} ms",
            f"{of['ms']['p99']:.1f} ms",
            kib(of["warm"]["bytes"]["p50"]),
            kib(of["warm"]["bytes"]["p99"]),
            kib(of["cold"]["bytes"]["p50"]),
            f"{of['warm']['requests']['p50']:.0f}",
            f"{of['all_ms']:.0f} ms",
        ]
        for of in (small, large)
    ]
    variants = [
        [
            name,
            kib(found["bytes"]["p50"]),
            f"{found['requests']['p50']:.0f}",
            f"{found['ms']['p50']:.1f} ms",
        ]
        for name, found in lookup["variants"].items()
    ]
    return f"""## One key

`lookup` of {small["keys"]} random keys, one by one, in a table with 8 uncompacted upserts (9 runs in each file group), all 12 columns, in process;
files are in the page cache. Warm: a table object that has been used. Bytes and requests are those that an object store would be
asked for.

{table(["rows", "p50", "p99", "bytes p50", "bytes p99", "bytes, new table object", "requests", f"all {small['keys']} at once"], sizes)}

The first lookup of a new process takes {first["first_ms"]:.0f} ms, opening the table included ({first["process_ms"] / 1000:.1f} s from the start of the process, mostly imports).
Hudi's query for one key (`where user_id = … and id = …`, all columns) takes {hudi:.2f} s as it comes (of {len(peers["hudi"]["queries"])}) and {tuned:.2f} s tuned (middle of {len(peers["tuned"]["queries"])}):
**{query_ratio(results, "hudi"):,.0f} and {query_ratio(results, "tuned"):,.0f} times as long**. As it comes Hudi spills the logs that it merges to disk.

Ways to find the key in its 9 runs, same files, nothing remembered between keys:

{chart}

{table(["", "bytes", "requests", "time"], variants)}

The sparse index is the first key of each row group, in the footer that is read anyway. It leads to the same row groups as the
statistics of the key column do where those are there and whole, so the bytes are the same; reading that row group's key column before all
others is what saves most, since few runs hold a given key.
{pages(lookup["pages"]) if "pages" in lookup else ""}{load(lookup) if "load" in lookup else ""}"""


def pages(found: dict) -> str:
    """Tell of row groups and pages of several sizes, beside Parquet's page index."""
    return f"""
### Sparse index and page index

One sorted run of {found["rows"]:,} rows and 12 columns, {found["keys"]} keys one by one; an entry of the sparse index is a page
(`lakebed.sparse.index.rows`). Both ways decode the same pages by the same code: the sparse index finds the page by the smallest keys in page
headers, the page index by its own structures behind the data. Bytes of a reader that knows the footer, and of the first key of a new reader; CPU
milliseconds (p50).

{table(PAGES_HEADER, pages_rows(found))}

Once a row group has been seen, both read the same pages. A reader that keeps pages of keys, as a table object does, needs none for the search.
For its first key in a row group the sparse index reads all of its pages for their headers, the page index only what it needs. Smaller pages make
lookups quicker and scans slower, and a file of 512 rows a page is a tenth larger.
"""


def load(lookup: dict) -> str:
    """Tell of lookups at fixed rates."""
    return f"""
### Lookups at a fixed rate

The same, with an index on `id`; p50 / p99 in milliseconds from the moment at which a query was due, by key and by a value with one match:

{table(LOAD_HEADER, load_rows({f"{lookup['small']['rows']:,}": lookup["load"]}))}

The design that the sparse index comes from reports for its own engine, on 2 TB on a cluster (p99):

{table(["queries a second", "base files indexed", "and logs"], [[rate, *of] for rate, of in SEED.items()])}
"""


def memory(results: dict) -> str:
    """Tell of memory and of opening a table."""
    peers, rows, opened = results["peers"], results["rows"], results["opened"]
    peak = max(peers["first"]["worker_peak_bytes"], peers["last"]["worker_peak_bytes"]) / MIB
    double = peers["double"]["worker_peak_bytes"] / MIB
    one, ten = results["memory"]
    merged = [
        [
            f"{of['runs_rows']:,}",
            f"{of['merge_bytes'] / MIB:.0f} MiB",
            f"{of['peak_bytes'] / MIB:.0f} MiB",
            f"{of['seconds']:.2f} s",
        ]
        for of in (one, ten)
    ]
    return f"""## Memory

A merge of 9 runs (a base file and 8 logs of equal length, all columns, streamed in process): the peak above what the process held
before, kernels loaded, and the peak in all.

{table(["rows in all runs", "merge", "process", "time"], merged)}

Ten times the rows take **{100 * (ten["merge_bytes"] / one["merge_bytes"] - 1):+.0f} %** of memory for the merge, {100 * (ten["peak_bytes"] / one["peak_bytes"] - 1):+.0f} % in all.

Any Python worker during bulk_insert, shared pages included: {peak:.0f} MiB for {rows:,} rows, {double:.0f} MiB for {2 * rows:,} ({100 * (double / peak - 1):+.0f} %).

## Opening a table of {opened["instants"]:,} instants

Properties, timeline and schema: {opened["open_ms"]} ms, against {opened["floor_ms"]} ms for listing the timeline and parsing every name:
**{opened["ratio"]} times**. With {opened["files"]:,} files, a snapshot of them planned: {opened["plan_ms"]} ms, against {opened["plan_floor_ms"]} ms
for listing both folders, parsing every name and decoding every commit: **{opened["plan_ratio"]} times**.
"""


def daily(results: dict) -> str:
    """Tell how an ordinary table of many small file groups does on Spark."""
    found = results.get("daily")
    if found is None:
        return ""
    names = {
        "count": "count of all rows, logs merged",
        "point": "one row, `where` on its key",
        "verify": "`verify`",
        "delete": "`delete(where=...)` of one row",
    }
    rows = [
        [text, many(found[name]["in process"]), many(found[name]["spark"])]
        for name, text in names.items()
    ]
    first, *later = found["writes"]
    return f"""## A table partitioned by day

300,000 rows in 36 partitions of 4 buckets, with 3 upserts of 3,000 rows each not compacted: {found["files"]:,} small files, {found["bytes"] / 1e6:.1f} MB. Every call opens the
table anew; both ways run in one process, in turns.

{table(["", "in process (s)", "Spark (s)"], rows)}

The first upsert of 3,000 rows after the session started took {first:.2f} s, the next ones {many(later)} s. `spark.read.format("lakebed")` counted the rows in {many(found["data source"])} s.
"""


def write_report(results: dict, docs: pathlib.Path) -> None:
    """Check that all engines saw the same rows, then write the page and its figures."""
    peers = results["peers"]
    scanned = [
        peers[name]["scanned"] for name in ("first", "last", "hudi", "tuned", "parquet_logs")
    ]
    if any(seen != scanned[0] for seen in scanned):
        raise SystemExit(f"the engines scanned different rows: {scanned}")
    amounts = results["lookup"]["small"]["amounts"]
    for name in ("hudi", "tuned"):
        found = peers[name]["amounts"]
        if found != amounts[: len(found)]:
            raise SystemExit(f"{name} found {found}, lookup {amounts}")
    figures = docs / "figures"
    head = f"""# Benchmarks

`make bench` makes the data, runs everything below in one go ({results["minutes"]:.0f} minutes), and writes this page. Seconds belong to the machine they were
measured on; the ratios are what counts. Machine: {os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python
{platform.python_version()}, pyarrow {pa.__version__}.

{results.get("apart", "")}

{summary(results)}
"""
    parts = [
        head,
        writing(results, figures),
        reading(results, figures),
        compacting(results, figures),
        migrating(results),
        finding(results, figures),
        memory(results),
        daily(results),
    ]
    (docs / "benchmarks.md").write_text("\n".join(parts))
