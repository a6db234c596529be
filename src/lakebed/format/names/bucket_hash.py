"""The simple bucket index: the bucket of a record key, and the file ids of buckets.

    h(s)    x = 31*x + c over the UTF-16 units c of s, from 0        Java String.hashCode
    H(vs)   x = 31*x + h(v) over the values v, from 1                Java List.hashCode
    bucket  (H(vs) & 0x7fffffff) % n                                 all in 32 bits

The values `vs` are extracted from the record key's STRING, as in
`KeyGenUtils.extractRecordKeysByFields` of Hudi 1.2.0. A key that lacks `,` or `:` is hashed as a
whole, so a COMPLEX key of one field is hashed with its name (`id:k0`), but `id:a,b` is hashed as
`a,b`. Otherwise the values of the hash fields are hashed, in the order of the KEY's fields;
`__null__` and `__empty__` hash as 0. Hudi splits values that contain a `,` and later a `:` in the
wrong place, and so does this module.

On some keys, such as `id:1,ts:10:30` hashed by `id`, Hudi 1.2.0 loops forever; here, their correct
values are hashed.
"""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError
from lakebed.format.compiled import is_worth_kernel
from lakebed.format.names import kernel
from lakebed.format.names.record_key import EMPTY_PART, NULL_PART

# The kernel saves about 3 ns per byte, and importing numba takes 1.8 s: below this many bytes,
# numpy is faster. Once numba is imported, numpy is faster only for tiny inputs.
KERNEL_MIN_BYTES = 1 << 29
WARM_KERNEL_MIN_BYTES = 1 << 20
MAX_BUCKETS = 100_000_000  # eight digits of a file id
_CHUNK_UNITS = 1 << 18
# For fewer keys than this, plain Python is quicker than setting up numpy.
_FEW_KEYS = 16
_MASK = 0xFFFFFFFF

Texts: TypeAlias = pa.StringArray | pa.LargeStringArray
Hashes: TypeAlias = npt.NDArray[np.int32]


def key_buckets(
    keys: pa.StringArray,
    fields: Sequence[str],
    hash_fields: Sequence[str],
    num_buckets: int,
    *,
    composite: bool,
    texts: Mapping[str, pa.StringArray] | None = None,
) -> Hashes:
    """Return the bucket of every record key, exactly as Hudi computes it from the key's string.

    `texts` are the key's parts by field; if None, they are extracted from the keys. Keys that Hudi
    splits in an unexpected place cost Python time per distinct key.
    """
    is_split = not composite or len(fields) > 1
    if len(keys) <= _FEW_KEYS and is_split and texts is None and not keys.null_count:
        few = [_python_hash(extract_key_values(key, hash_fields)) for key in keys.to_pylist()]
        return _to_buckets(np.array(few, dtype=np.int32), num_buckets)
    parts = texts
    if composite and len(fields) > 1 and texts is None:
        parts = split_composite_keys(keys, fields)
    hashed = hash_field_texts(keys, fields, hash_fields, composite=composite, texts=parts)
    hashes = list_hashes(hashed)
    mask = _odd_keys(keys, fields, hash_fields, composite, parts)
    if parts is not None and texts is None:
        mask = pc.or_(mask, pc.is_null(parts[fields[0]]))  # not a key of these fields
    odd = pc.indices_nonzero(mask)
    if len(odd):
        encoded = pc.dictionary_encode(keys.take(odd))
        exact = [
            _python_hash(extract_key_values(key, hash_fields))
            for key in encoded.dictionary.to_pylist()
        ]
        hashes[np.asarray(odd)] = np.array(exact, dtype=np.int32)[np.asarray(encoded.indices)]
    return _to_buckets(hashes, num_buckets)


def hash_field_texts(
    keys: pa.StringArray,
    fields: Sequence[str],
    hash_fields: Sequence[str],
    *,
    composite: bool,
    texts: Mapping[str, pa.StringArray] | None = None,
) -> list[pa.StringArray]:
    """Return the strings to hash, for keys that Hudi splits where their parts were joined.

    `key_buckets` handles other keys separately.
    """
    wanted = [field for field in fields if _is_hashed(field, hash_fields)]
    if not composite or not wanted:
        return [keys]
    if len(fields) == 1:
        value = pc.utf8_slice_codeunits(keys, len(fields[0]) + 1)
        return [pc.if_else(pc.match_substring(value, ","), _blank(value), keys)]
    if texts is None:
        texts = split_composite_keys(keys, fields)
    return [_blank(texts[field]) for field in wanted]


def split_composite_keys(keys: pa.StringArray, fields: Sequence[str]) -> dict[str, pa.StringArray]:
    """Split composite keys into their parts, which are null for a key with other fields.

    `__null__` and `__empty__` are not replaced. A value that contains `,field:` with the name of
    the next field is split too early, because the string is ambiguous.
    """
    pattern = ",".join(f"{re.escape(field)}:(?P<p{i}>.*?)" for i, field in enumerate(fields))
    parts = pc.extract_regex(keys, f"(?s)^{pattern}$")
    return {field: pc.struct_field(parts, f"p{i}") for i, field in enumerate(fields)}


def extract_key_values(key: str, hash_fields: Sequence[str]) -> list[str | None]:
    """Extract the values of a key like `KeyGenUtils.extractRecordKeysByFields`.

    A value extends to the last `,` before the first `:` that has a `,` between it and the value's
    own `:`. If no value is found, the result is the whole key.
    """
    if "," not in key or ":" not in key:
        return [key]
    values: list[str | None] = []
    start = 0
    while start < len(key):
        own = key.index(":", start)
        comma = _last_comma_before_next_field(key, own)
        if _is_hashed(key[start:own], hash_fields):
            value = key[own + 1 : comma]
            values.append({NULL_PART: None, EMPTY_PART: ""}.get(value, value))
        start = len(key) if comma is None else comma + 1
    return values or [key]


def list_hashes(texts: Sequence[Texts]) -> Hashes:
    """Return Java's List.hashCode of every row of `texts`, which are columns of equal length."""
    if not texts:
        raise InvalidError("bucket hash: expected at least one column of texts, found none")
    rows = len(texts[0])
    flat = [_flatten(text) for text in texts]
    if any(len(offsets) != rows + 1 for _, offsets in flat):
        raise InvalidError(f"bucket hash: expected columns of {rows} rows, found other lengths")
    hashes = np.ones(rows, dtype=np.int32)
    size = sum(int(offsets[-1] - offsets[0]) for _, offsets in flat)
    compiled = is_worth_kernel(size, KERNEL_MIN_BYTES, WARM_KERNEL_MIN_BYTES)
    fold = kernel.load_fold() if compiled else fold_numpy
    for data, offsets in flat:
        fold(data, offsets, hashes)
    return hashes


def fold_numpy(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], hashes: Hashes) -> None:
    """Compute the same hashes as the kernel, in numpy.

    31 is odd, so it has an inverse modulo 2**32. With P the running sum of `unit * 31**-i`, the
    hash of the units [a, b) is `(P[b] - P[a]) * 31**(b - 1)`.
    """
    rows = len(hashes)
    first = 0
    while first < rows:
        limit = offsets[first] + _CHUNK_UNITS
        last = max(first + 1, int(np.searchsorted(offsets, limit, side="right")) - 1)
        span = offsets[first : last + 1]
        ends, units = _utf16(data[span[0] : span[-1]], span - span[0])
        inverse, power = _powers(len(units))
        sums = np.zeros(len(units) + 1, dtype=np.uint32)
        np.cumsum(units * inverse[: len(units)], out=sums[1:], dtype=np.uint32)
        value = (sums[ends[1:]] - sums[ends[:-1]]) * power[ends[1:]]
        out = hashes[first:last].view(np.uint32)
        out *= np.uint32(31)
        out += value
        first = last


def new_bucket_file_id(bucket: int, uuid: str) -> str:
    """Return the id of a new file group of `bucket`: a UUID that starts with the bucket's number.

    >>> new_bucket_file_id(3, "01234567-ddab-4ae2-99e3-d6143d5759e1")
    '00000003-ddab-4ae2-99e3-d6143d5759e1-0'
    """
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid):
        raise InvalidError(f"uuid {uuid!r}: expected 36 characters, 8-4-4-4-12 in lower-case hex")
    return f"{_bucket_prefix(bucket)}{uuid[8:]}-0"


def fixed_bucket_file_id(bucket: int) -> str:
    """Return the file id that all writers use for `bucket` under non-blocking concurrency."""
    return f"{_bucket_prefix(bucket)}-0000-0000-0000-000000000000-0"


def bucket_of_file_id(file_id: str) -> int | None:
    """Return the bucket number in a file id, or None if it has none.

    >>> bucket_of_file_id("00000003-ddab-4ae2-99e3-d6143d5759e1-0")
    3
    """
    return int(file_id[:8]) if re.match(r"[0-9]{8}-", file_id) else None


def warm_up() -> None:
    """Load and call the kernel, so that processes forked later have it."""
    kernel.load_fold()(*_flatten(pa.array(["é"])), np.ones(1, dtype=np.int32))


def _bucket_prefix(bucket: int) -> str:
    if not 0 <= bucket < MAX_BUCKETS:
        raise InvalidError(f"bucket {bucket}: expected a number from 0 to {MAX_BUCKETS - 1}")
    return f"{bucket:08d}"


def _to_buckets(hashes: Hashes, num_buckets: int) -> Hashes:
    if not 0 < num_buckets <= MAX_BUCKETS:
        raise InvalidError(f"number of buckets: expected 1 to {MAX_BUCKETS}, found {num_buckets}")
    buckets: Hashes = (hashes & np.int32(0x7FFFFFFF)) % np.int32(num_buckets)
    return buckets


def _is_hashed(field: str, hash_fields: Sequence[str]) -> bool:
    return list(hash_fields) in ([], [""]) or field in hash_fields


def _blank(text: pa.StringArray) -> pa.StringArray:
    """Replace the placeholders with empty strings, which hash as 0 like a null."""
    placeholder = pc.is_in(text, pa.array([NULL_PART, EMPTY_PART], pa.string()))
    return pc.if_else(placeholder, "", text)


def _odd_keys(
    keys: pa.StringArray,
    fields: Sequence[str],
    hash_fields: Sequence[str],
    composite: bool,
    texts: Mapping[str, pa.StringArray] | None,
) -> pa.BooleanArray:
    """Return for each key whether Hudi may split it in another place than where it was joined."""
    wanted = [field for field in fields if _is_hashed(field, hash_fields)]
    strange = any("," in field or ":" in field for field in fields)
    if strange or not composite or not wanted:
        if not strange and not _holds_comma(keys):
            return _all_false(len(keys))
        both = pc.and_(pc.match_substring(keys, ","), pc.match_substring(keys, ":"))
        if strange:
            return both
        names = "|".join(re.escape(field) for field in hash_fields if field)
        return pc.and_(
            both, pc.match_substring_regex(keys, f"(?:^|,)(?:{names}):" if names else ":")
        )
    if len(fields) == 1 or texts is None:
        values = [pc.utf8_slice_codeunits(keys, len(fields[0]) + 1)]
    else:
        values = [texts[field].fill_null("") for field in fields]
    if not any(_holds_comma(value) for value in values):
        return _all_false(len(keys))
    return reduce(pc.or_, (pc.match_substring_regex(value, "(?s),.*:") for value in values))


def _holds_comma(texts: pa.StringArray) -> bool:
    """Return whether any string contains a comma."""
    data, _ = _flatten(texts)
    return bool((data == ord(",")).any())


def _all_false(rows: int) -> pa.BooleanArray:
    return pa.array(np.zeros(rows, dtype=np.bool_))


def _last_comma_before_next_field(key: str, own: int) -> int | None:
    """Return the position of the `,` that ends the value whose `:` is at `own`, or None."""
    colon = key.find(":", own + 1)
    while colon >= 0:
        comma = key.rfind(",", own, colon)
        if comma > 0:
            return comma
        colon = key.find(":", colon + 1)
    return None


def _python_hash(values: Sequence[str | None]) -> int:
    total = 1
    for value in values:
        units = np.frombuffer((value or "").encode("utf-16-le"), dtype="<u2")
        part = 0
        for unit in units.tolist():
            part = (31 * part + unit) & _MASK
        total = (31 * total + part) & _MASK
    return total - (1 << 32) if total >> 31 else total


def _flatten(text: Texts) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes and the len + 1 offsets of a column, with nulls as empty strings."""
    if not (pa.types.is_string(text.type) or pa.types.is_large_string(text.type)):
        raise InvalidError(f"bucket hash: expected strings, found {text.type}")
    if text.null_count:
        text = text.fill_null("")
    if len(text) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offset_bytes, data_bytes = text.buffers()
    width = np.int64 if pa.types.is_large_string(text.type) else np.int32
    offsets = np.frombuffer(offset_bytes, width)[text.offset : text.offset + len(text) + 1]
    return np.frombuffer(data_bytes or b"", np.uint8), offsets.astype(np.int64)


def _utf16(
    data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Convert UTF-8 to UTF-16 units, and byte offsets to unit offsets."""
    if not len(data) or data.max() < 0x80:
        return ends, data.astype(np.uint32)
    try:
        units = np.frombuffer(data.tobytes().decode().encode("utf-16-le"), dtype="<u2")
    except UnicodeDecodeError as error:
        raise InvalidError(f"bucket hash: expected UTF-8 strings, found {error}") from error
    # A character has one unit, or two if its UTF-8 form has four bytes.
    count = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
    return before[ends], units.astype(np.uint32)


def _powers(units: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return 31**-i for each unit, and 31**(b - 1) for each end b, modulo 2**32."""
    global _POWERS  # noqa: PLW0603 - a table that only grows
    if units >= len(_POWERS[0]):
        size = max(units + 1, _CHUNK_UNITS + 1)
        inverse = pow(31, -1, 1 << 32)
        down = np.full(size, inverse, np.uint32)
        down[0] = 1
        up = np.full(size, 31, np.uint32)
        up[0] = inverse
        _POWERS = (np.cumprod(down, dtype=np.uint32), np.cumprod(up, dtype=np.uint32))
    return _POWERS


_POWERS = (np.empty(0, np.uint32), np.empty(0, np.uint32))
