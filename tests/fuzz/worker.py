"""Damage one file after another, read the table, and say what happened: one process, many files.

    worker.py <folder with the tables> <first seed> <number of seeds> <step>

Each line on standard output is JSON: before a file is touched which one it is, so that the
process that reads them knows what killed this one, and afterwards what a read did.
"""

import json
import logging
import random
import resource
import signal
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.corpus import LESS_COMMITTED, Victim, tables, victims
from fuzz.mutations import MUTATIONS, Mutation
from fuzz.ways import WAYS, WEIGHTS, Rows, ask, ask_or_refusal, some_keys
from lakebed.errors import LakebedError

SECONDS = 20
GROWTH_KB = 400_000
"""How much more memory one file may take than all before it."""
MEMORY_BYTES = 6 << 30
"""Address space: numba and Arrow's allocator take some of it without using it."""
_LOOKUP = "lookup"
# What its own values decide, whatever is left of them.
_FREE = (".hoodie/hoodie.properties",)


class TooSlow(BaseException):
    """A read took longer than it may."""


@dataclass(frozen=True, slots=True)
class Case:
    """One file damaged in one way, and how its table is read."""

    seed: int
    victim: Victim
    mutation: Mutation
    way: str
    data: bytes


@dataclass(slots=True)
class Worker:
    """The tables, and what they gave before they were damaged."""

    folder: Path
    files: list[Victim]
    _known: dict[tuple[str, str], Rows | None] = field(default_factory=dict)
    _keys: dict[str, list[dict[str, object]]] = field(default_factory=dict)

    def choose(self, seed: int) -> Case:
        """Say what the case `seed` is: the same in every process."""
        rng = random.Random(seed)
        # Most of what is ours to parse is in logs.
        logs = [f for f in self.files if ".log." in f.path or ".deletes." in f.path]
        victim = rng.choice(logs if rng.random() < 0.6 else self.files)
        before = (self.folder / victim.table / victim.path).read_bytes()
        for mutation in rng.sample(MUTATIONS, len(MUTATIONS)):
            data = mutation.mutate(before, rng)
            if data is not None:
                break
        else:
            raise AssertionError(f"{victim}: no mutation fits")
        (way,) = rng.choices([*WAYS, _LOOKUP], [*WEIGHTS, 5])
        if victim.path.startswith(".hoodie/.bucket_index/"):
            way = "rings"
        return Case(seed, victim, mutation, way, data)

    def before(self, case: Case) -> Rows | None:
        """Return what this way of reading gave before; None if the table was refused."""
        place = (case.victim.table, case.way)
        if place not in self._known:
            self._known[place] = ask_or_refusal(
                self.folder / case.victim.table, case.way, self.keys(case)
            )
        return self._known[place]

    def keys(self, case: Case) -> list[dict[str, object]] | None:
        """Return keys of the table, if they are to be looked up."""
        if case.way != _LOOKUP:
            return None
        table = case.victim.table
        if table not in self._keys:
            self._keys[table] = some_keys(self.folder / table)
        return self._keys[table]

    def run(self, case: Case) -> str | None:
        """Damage, read, mend; give what was wrong, None if nothing."""
        before, keys = self.before(case), self.keys(case)
        held = _peak_kb()
        wrong = self._read_damaged(case, before, keys)
        if wrong is None and (grown := _peak_kb() - held) > GROWTH_KB:
            return f"took {grown} KB of memory"
        return wrong

    def _read_damaged(
        self, case: Case, before: Rows | None, keys: list[dict[str, object]] | None
    ) -> str | None:
        file = self.folder / case.victim.table / case.victim.path
        whole = file.read_bytes()
        file.write_bytes(case.data)
        signal.alarm(SECONDS)
        try:
            rows = ask(self.folder / case.victim.table, case.way, keys)
        except LakebedError as error:
            return _wrong_refusal(error)
        except TooSlow:
            return f"took more than {SECONDS} s"
        except BaseException:  # noqa: BLE001 - anything else is what is looked for
            return traceback.format_exc()
        finally:
            signal.alarm(0)
            file.write_bytes(whole)
        told = case.victim.path not in _FREE and case.victim.table not in LESS_COMMITTED
        if case.mutation.structural and told and rows != before:
            return f"read as valid: {len(rows)} rows, {len(before or ())} before"
        return None


def _wrong_refusal(error: LakebedError) -> str | None:
    if not str(error):
        return f"{type(error).__name__} without a word"
    if isinstance(error.__cause__, MemoryError):
        return f"ran out of memory: {error}"
    return None


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def say(**what: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def run_all(worker: Worker, seeds: Iterable[int]) -> None:
    """Run the cases and tell of each."""
    for seed in seeds:
        case = worker.choose(seed)
        say(
            seed=seed,
            table=case.victim.table,
            path=case.victim.path,
            mutation=case.mutation.name,
            way=case.way,
        )
        say(seed=seed, wrong=worker.run(case))


def main() -> None:
    """Run the cases that the arguments name."""
    folder, first, count, step = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _too_slow)
    worker = Worker(folder, victims(folder, tables(folder)))
    run_all(worker, range(first, first + count * step, step))
    say(done=count, peak_kb=_peak_kb())


def _too_slow(*_: object) -> None:
    raise TooSlow


if __name__ == "__main__":
    main()
