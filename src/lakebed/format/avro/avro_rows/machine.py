"""Choose between the compiled kernel and its plain Python twin.

Importing numba takes as long as decoding half a megabyte in plain Python, so each process handles
its first bytes with the twin, unless numba is already imported.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

from lakebed.format.avro.avro_rows import kernel, twin
from lakebed.format.avro.avro_rows.sized import kernel as sized_kernel
from lakebed.format.avro.avro_rows.sized import twin as sized_twin
from lakebed.format.compiled import PlainFirst, load_compiled


@dataclass(frozen=True, slots=True)
class Machine:
    """The functions that process bytes; see `kernel` and `sized.kernel`."""

    walk: kernel.Walk
    pack: kernel.Pack
    gather: sized_kernel.Gather
    decimals: sized_kernel.Decimals


TWIN: Final = Machine(twin.walk, twin.pack, sized_twin.gather, sized_twin.decimals)


@cache
def load_machine() -> Machine:
    """Return the compiled functions, compiled or loaded from the cache once per process."""
    rows = load_compiled(kernel.__file__, kernel.compile_kernels)
    sized = load_compiled(sized_kernel.__file__, sized_kernel.compile_kernels)
    return Machine(*rows, *sized)


# A process handles this many bytes in plain Python before it imports numba.
use_kernel = PlainFirst(512 << 10).use_kernel


def choose_machine(size_bytes: int) -> Machine:
    """Return the functions with which to process the next `size_bytes` bytes."""
    return load_machine() if use_kernel(size_bytes) else TWIN


def warm_up() -> None:
    """Load the kernel, so that processes forked later have it."""
    load_machine()
