"""Points in time by version and tag, and commit metadata in the history."""

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidError
from support.tables import batch, make

KEEPS_FEW = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "lakebed.clean.min.age.seconds": "0",
}


def test_versions_count_commits_from_zero_and_stay_when_commits_are_archived():
    t = make(table_type="COPY_ON_WRITE", properties=KEEPS_FEW)
    for number in range(6):
        t.upsert(batch((f"k{number}", number, 1, "p")), commit_metadata={"n": str(number)})
    before = {row["version"]: row["instant"] for row in t.history().to_pylist()}
    t.clean()
    t.archive()
    rows = t.history().to_pylist(maps_as_pydicts="strict")
    assert any(row["archived"] for row in rows)
    commits = [row for row in rows if row["version"] is not None]
    assert {row["version"]: row["instant"] for row in commits} == before
    assert [row["version"] for row in commits] == [5, 4, 3, 2, 1, 0]
    assert {row["version"]: row["commit_metadata"]["n"] for row in commits}[2] == "2"
    assert t.count(as_of=5) == t.count(as_of="5") == t.count(as_of="version:5") == 6
    with pytest.raises(InvalidError, match="was cleaned since"):
        t.count(as_of=0)


def test_a_range_starts_after_a_version_and_ends_with_one():
    t = make()
    for number in range(4):
        t.upsert(batch((f"k{number}", number, 1, "p")))
    found = t.to_arrow(since=0, until=2)
    assert sorted(found["id"].to_pylist()) == ["k1", "k2"]


def test_a_savepoint_is_read_by_its_comment():
    t = make()
    t.upsert(batch(("a", 1, 1, "p")))
    t.savepoint(comment="月末")
    t.upsert(batch(("b", 1, 1, "p")))
    for tag in ("月末", "tag:月末"):
        assert [key for _, key in user_rows_as_of(t, tag)] == ["a"]
    assert t.to_arrow(since="月末")["id"].to_pylist() == ["b"]
    t.savepoint(comment="月末")
    with pytest.raises(InvalidError, match="2 savepoints have this comment"):
        t.count(as_of="月末")
    with pytest.raises(InvalidError, match="comment of a savepoint"):
        t.count(as_of="next week")


def user_rows_as_of(table, as_of):
    rows = table.to_arrow(["dt", "id"], as_of=as_of).to_pylist()
    return [(row["dt"], row["id"]) for row in rows]


@pytest.mark.parametrize("version", [-1, 1, True, "12345"])
def test_a_version_that_is_not_there_is_refused_with_those_that_are(version):
    t = make()
    t.upsert(batch(("a", 1, 1, "p")))
    with pytest.raises(InvalidError, match=r"its versions, 0 to 0|point in time True"):
        t.count(as_of=version)


def test_results_show_themselves_in_notebooks_without_markup_of_their_own():
    t = lakebed.create_table(
        None, "memory://html/<b>t", "id BIGINT, v STRING", key="id", name="x<y"
    )
    commit = t.insert(pa.table({"id": [1], "v": ["a"]}))
    t.create_index("by_v", ["v"])
    shown = (t, commit, t.layers(), t.explain(where="v < '<i>'"), t.indexes(), t.describe())
    for one in shown:
        html = one._repr_html_()
        assert html.startswith(("<div><b>", "<pre>"))
        assert "x<y" not in html
        assert "<i>" not in html
        assert "script" not in html
    assert "x&lt;y" in t._repr_html_()
    assert "<td>1</td>" in commit._repr_html_()
