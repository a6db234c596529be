"""The commands that show and load rows, on real files."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakebed
from lakebed.cli.main import app

runner = CliRunner()


def run(*arguments, code=0):
    done = runner.invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80"})
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


@pytest.fixture
def loaded(tmp_path):
    """A table made by `create` and filled by three files."""
    files = {
        "rows.csv": "id,city,amount,ts\n1,Oslo,1.5,10\n2,上海,2.5,10\n",
        "more.jsonl": '{"id": 2, "city": "上海", "amount": 9.5, "ts": 11}\n'
        '{"id": 3, "city": null, "amount": 3.5, "ts": 11}\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    pq.write_table(
        pa.table({"id": [4], "city": ["x" * 90], "amount": [1.0], "ts": [12]}),
        tmp_path / "r.parquet",
    )
    path = tmp_path / "t"
    run(
        "create",
        path,
        "--like",
        tmp_path / "rows.csv",
        "--key",
        "id",
        "--ordering",
        "ts",
        "--with",
        "buckets=1",
    )
    run("load", path, tmp_path / "rows.csv")
    run("load", path, tmp_path / "more.jsonl", "--operation", "insert")
    run("load", path, tmp_path / "r.parquet", "--operation", "bulk_insert")
    return path


def test_files_of_every_format_become_rows(loaded):
    found = lakebed.open_table(None, loaded).to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["city"], row["amount"]) for row in found] == [
        (1, "Oslo", 1.5), (2, "上海", 9.5), (3, None, 3.5), (4, "x" * 90, 1.0)
    ]  # fmt: skip


def test_show_prints_schema_key_rows_and_size_within_80_columns(loaded):
    out = run("show", loaded)
    assert "key id; ordering ts" in out
    assert "columns id bigint, city string, amount double, ts bigint" in out
    assert "4 rows, " in out
    for command in (("show",), ("head",), ("diff", "0"), ("describe",)):
        lines = run(command[0], loaded, *command[1:]).splitlines()
        assert max(map(len, lines)) <= 80, command
    document = json.loads(run("show", loaded, "--json"))
    assert (document["rows"], document["columns"]["city"]) == (4, "string")


def test_head_takes_rows_columns_a_predicate_and_a_version(loaded):
    assert len(json.loads(run("head", loaded, "-n", "2", "--json"))) == 2
    found = json.loads(
        run("head", loaded, "--columns", "id, city", "--where", "id > 1", "--as-of", "0", "--json")
    )
    assert found == [{"id": 2, "city": "上海"}]
    assert "(no rows)" in run("head", loaded, "--where", "id = 99")


def test_diff_prints_the_changes_between_two_points(loaded):
    first = lakebed.open_table(None, loaded).history()["instant"].to_pylist()[-1]
    for old in ("0", first):
        out = run("diff", loaded, old, "1")
        assert "~ id=2, city=上海, amount=2.5" in out
        assert out.splitlines()[-1] == "1 inserted, 1 updated, 0 deleted"
    out = run("diff", loaded, "0", "-n", "1")
    assert "... and 2 changes more" in out
    assert "2 inserted, 1 updated, 0 deleted" in out
    document = json.loads(run("diff", loaded, "1", "--json"))
    assert [document[name] for name in ("inserted", "updated", "deleted")] == [1, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("load", "{t}", "{t}/none.csv"), "no such file"),
        (("load", "{t}", "{d}/rows.csv", "--format", "xml"), "parquet, csv, json, found 'xml'"),
        (("load", "{t}", "{d}/rows.csv", "--operation", "merge"), "upsert, insert, bulk_insert"),
        (("load", "{t}", "{d}/bad.csv"), "bad.csv: not valid csv"),
        (("create", "{d}/u", "--key", "id"), "either --schema or --like"),
        (("head", "{t}", "--as-of", "7"), "versions, 0 to 2"),
        (("head", "{t}", "--columns", "idd"), "no column 'idd'"),
    ],
)
def test_wrong_usage_is_a_sentence(loaded, arguments, message):
    (loaded.parent / "bad.csv").write_text("id,city,amount,ts\nx,y,z,1\n")
    done = runner.invoke(app, [a.format(t=loaded, d=loaded.parent) for a in arguments])
    assert done.exit_code in (1, 2)
    assert message in done.output
    assert "Traceback" not in done.output


def test_a_shell_can_ask_for_the_words_of_the_command():
    done = runner.invoke(
        app,
        [],
        env={"_LAKEBED_COMPLETE": "complete_bash", "COMP_WORDS": "lakebed he", "COMP_CWORD": "1"},
        prog_name="lakebed",
    )
    assert "head" in done.output


def test_values_that_python_or_json_lacks_are_strings(tmp_path):
    days = pa.array([10**7, 0], pa.int32()).cast(pa.date32())
    rows = pa.table({"id": [1, 2], "day": days, "x": [float("nan"), float("-inf")]})
    lakebed.create_table(None, tmp_path / "t", rows, key="id").insert(rows)

    def strict(name):
        raise AssertionError(name)

    found = json.loads(run("head", tmp_path / "t", "--json"), parse_constant=strict)
    shown = {row["id"]: (row["day"], row["x"]) for row in found}
    assert shown == {1: ("29349-01-26", "NaN"), 2: ("1970-01-01", "-Infinity")}
    assert "29349-01-26" in run("head", tmp_path / "t")
    assert "29349-01-26" in run("diff", tmp_path / "t", "0001-01-01")
    assert "29349-01-26" in run("sql", "-w", tmp_path, "-e", "SELECT * FROM t")


def test_an_option_that_is_not_understood_is_not_shown(tmp_path):
    done = runner.invoke(app, ["show", str(tmp_path), "-o", "s3cr3t-of-a-user"])
    assert done.exit_code == 2
    assert "expected KEY=VALUE" in done.output
    assert "s3cr3t" not in done.output
