"""A worker of which one file ends the process and another one takes too long: for its test."""

import os
import sys

from fuzz.worker import say


def main() -> None:
    """Run the cases that the arguments name; the files are numbers."""
    first, count, step = map(int, sys.argv[2:5])
    for seed in range(first, first + count * step, step):
        say(seed=seed, table="t", path=f"file {seed}")
        if seed == 4:
            os.abort()
        say(seed=seed, wrong="took too long" if seed == 8 else None)
    say(done=count, peak_kb=0)


if __name__ == "__main__":
    main()
