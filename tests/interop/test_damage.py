"""A damaged file slice that repair ended: Apache Hudi and hudi-rs see what we see, and go on writing."""

import pytest

from interop.clients import Hudi, HudiRs
from interop.test_services import COW, MOR, Shared, ours


def ended(shared: Shared, level: str, *, keep_readable: bool) -> set[str]:
    """Delete a file of partition d0, end its slice; give the keys that were in it."""
    file = next(
        f
        for f in shared.table.files().to_pylist()
        if f["partition"] == "d0" and f["level"] == level
    )
    rows = shared.table.read(columns=["id", "_hoodie_file_name"]).read_all().to_pylist()
    keys = {r["id"] for r in rows if r["_hoodie_file_name"].startswith(file["file_id"])}
    (shared.path / file["path"]).unlink()
    done = shared.table.repair(drop_lost=True, keep_readable=keep_readable).done
    assert len(done.dropped) == 1
    return keys


@pytest.mark.parametrize(("table_type", "index"), [(MOR, "bucket"), (COW, "simple")])
def test_hudi_reads_and_writes_on_where_a_slice_was_ended(
    tmp_path, hudi, hudi_rs, table_type, index
):
    shared = ours(tmp_path / f"t_{index}", hudi, hudi_rs, table_type, index)
    shared.upsert(*range(12))
    shared.upsert(*range(6))
    gone = ended(shared, "L1", keep_readable=False)
    assert gone
    for key in gone:
        del shared.live[key]
    shared.check()
    shared.hudi_upsert(*(int(key[1:]) for key in sorted(gone)))
    shared.check()
    assert shared.table.verify().is_sound


def test_hudi_reads_what_was_kept(tmp_path, hudi: Hudi, hudi_rs: HudiRs):
    shared = ours(tmp_path / "kept", hudi, hudi_rs, MOR, "bucket")
    shared.upsert(*range(12))
    before = dict(shared.live)
    shared.upsert(*range(12))
    kept = ended(shared, "L0", keep_readable=True)
    assert kept
    for key in kept:
        shared.live[key] = before[key]
    shared.check()
    shared.hudi_upsert(*range(4))
    shared.check()
