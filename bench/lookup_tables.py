"""The tables of lookups in the benchmark pages; nothing here is measured."""

from collections.abc import Mapping

SEED = {
    "1": ("2.2 s", "3.5 s"),
    "10": ("2.5 s", "4.3 s"),
    "30": ("3.0 s", "5.0 s"),
}
"""P99 in the table of the design that the sparse index comes from: 2 TB, base files indexed; and logs too."""


def both(of: Mapping[str, float]) -> str:
    """Return p50 and p99 as one cell."""
    return f"{of['p50']:.1f} / {of['p99']:.1f}"


def load_rows(loads: Mapping[str, dict]) -> list[list[str]]:
    """Return a row for each size of table and kind of query of `lookups.py`."""
    return [
        [
            rows,
            by,
            *(both(load[rate]) for rate in ("1", "10", "30")),
            *(f"{most['rate']} a second, {both(most['ms'])}" for most in load["most"]),
            f"{load['asked']['bytes']['p50'] / 1024:,.0f} KiB",
        ]
        for rows, found in loads.items()
        for by, load in found.items()
    ]


LOAD_HEADER = [
    "rows",
    "by",
    "1 a second",
    "10",
    "30",
    "most, 1 thread",
    "most, 2 threads",
    "bytes asked for",
]

PAGES_HEADER = [
    "rows of a row group",
    "of a page",
    "sparse index: bytes, CPU",
    "with kept keys: bytes, CPU",
    "page index: bytes, CPU",
    "bytes of the first key, sparse / page index",
    "file, sparse / page index",
    "scan of all columns, CPU",
]


def pages_rows(found: Mapping[str, list[dict]]) -> list[list[str]]:
    """Return a row for each variant of `page_index.py`."""
    return [
        [
            f"{of['group_rows']:,}",
            f"{of['page_rows']:,}",
            *(
                f"{of[way]['bytes'] / 1024:,.0f} KiB, {of[way]['cpu_ms']['p50']:.2f} ms"
                for way in ("sparse", "kept", "page_index")
            ),
            " / ".join(f"{of[way]['cold_bytes'] / 1024:,.0f}" for way in ("sparse", "page_index"))
            + " KiB",
            " / ".join(f"{of[way]['file_bytes'] / 1e6:.2f}" for way in ("sparse", "page_index"))
            + " MB",
            f"{of['scan_cpu']:.3f} s",
        ]
        for of in found["variants"]
    ]
