"""The plain Python twin of the compiled loops over strings, bytes and decimals.

It shares no code with `kernel`; both run the same tests.
"""

from typing import Final

from lakebed.format.avro.avro_rows.sized.kernel import Bytes, Ints, Words

_WORD: Final = (1 << 64) - 1


def gather(
    data: Bytes,
    words: Words,  # noqa: ARG001 - only the kernel reads words
    slots: Ints,
    offsets: Ints,
    out: Bytes,
    out_words: Words,  # noqa: ARG001
    text: bool,
) -> int:
    """Copy the bytes of each entry; see `kernel._gather`."""
    view, target = data.data, out.data
    places, bounds = slots.tolist(), offsets.tolist()
    for entry, place in enumerate(places):
        at, to, end = place >> 32, bounds[entry], bounds[entry + 1]
        value = bytes(view[at : at + end - to])
        target[to:end] = value
        try:
            if text:
                value.decode()
        except UnicodeDecodeError:
            return entry
    return -1


def decimals(
    data: Bytes, slots: Ints, valid: Bytes, words: Ints, limit_high: int, limit_low: int
) -> int:
    """Set `words` to the halves of each number; see `kernel._decimals`."""
    limit = limit_high << 64 | limit_low & _WORD
    view = data.data
    for entry, place in enumerate(slots.tolist()):
        if not valid[entry]:
            continue
        at, length = place >> 32, place & 0xFFFFFFFF
        value = int.from_bytes(view[at : at + length], "big", signed=True)
        if length == 0 or abs(value) > limit:
            return entry
        whole = value.to_bytes(16, "little", signed=True)
        words[entry, 0] = int.from_bytes(whole[:8], "little", signed=True)
        words[entry, 1] = int.from_bytes(whole[8:], "little", signed=True)
    return -1
