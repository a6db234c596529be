"""Every command, on real tables: what it says, its JSON, its exit code."""

import json
import os
import re
import subprocess
import sys

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

import lakebed
from lakebed.cli import answer as answers
from lakebed.cli.main import app
from lakebed.services.verify.findings import Code

SCHEMA = pa.schema(
    [("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("dt", pa.string())]
)
runner = CliRunner()


def rows(*numbers, ts=1):
    return pa.table(
        {
            "id": [f"k{n:03}" for n in numbers],
            "v": list(numbers),
            "ts": [ts] * len(numbers),
            "dt": [f"p{n % 2}" for n in numbers],
        },
        schema=SCHEMA,
    )


def run(*arguments, code=0):
    """Run the command; give what it prints."""
    done = runner.invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout


def run_json(*arguments, code=0):
    """Run the command; its stdout is one JSON document."""
    return json.loads(run(*arguments, "--json", code=code))


@pytest.fixture
def path(tmp_path):
    """A merge-on-read table with a load and two upserts."""
    where = tmp_path / "t"
    table = lakebed.create_table(
        None, where, SCHEMA, key="id", ordering="ts", partition_by="dt", buckets=2,
        properties={"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"},
    )  # fmt: skip
    table.bulk_insert(rows(*range(40)))
    table.upsert(rows(*range(0, 40, 4), ts=2))
    table.upsert(rows(*range(0, 40, 5), ts=3))
    return where


@pytest.fixture
def grouped(tmp_path):
    """A table with a column group, a load, and an update of the group."""
    where = tmp_path / "g"
    table = lakebed.create_table(
        None, where, SCHEMA, key="id", ordering="ts", buckets=1, column_groups={"vs": "v"}
    )
    table.bulk_insert(rows(*range(40)))
    table.upsert(rows(*range(0, 40, 4), ts=2).drop_columns(["dt"]))
    return where


def test_column_groups_are_shown_listed_and_explained(grouped):
    out = run("show", grouped)
    assert "column groups: (default), vs" in out
    default, _, group = out.partition("    column group vs\n")
    assert default.splitlines()[-2] == "    default column group"
    assert [line.split()[0] for line in default.splitlines()[-1:]] == ["L1"]
    assert [line.split()[0] for line in group.splitlines()] == ["L0", "L1"]
    document = run_json("show", grouped)
    assert document["table"]["column_groups"] == ["", "vs"]
    [found] = document["groups"]
    assert [(run["column_group"], run["level"]) for run in found["runs"]] == [
        ("", "L1"),
        ("vs", "L0"),
        ("vs", "L1"),
    ]
    head, *listed, _ = run("files", grouped).splitlines()
    assert head.split() == ["level", "column_group", "instant", "size", "path"]
    assert [line.split()[:2] for line in listed] == [
        ["L1", "(default)"],
        ["L1", "vs"],
        ["L0", "vs"],
    ]
    assert [row["column_group"] for row in run_json("files", grouped)] == ["", "vs", "vs"]
    explained = run_json("explain", grouped, "--columns", "v")["groups"]
    assert [group["columns_in"] for group in explained] == [0, 1]
    assert "vs read for v (1 file group)" in run("explain", grouped, "--columns", "v")


def test_a_table_without_column_groups_is_shown_as_before(path):
    assert "column group" not in run("show", path) + run("files", path) + run("explain", path)
    assert "column_groups" not in run_json("show", path)["table"]


def test_explain_says_what_a_read_would_read(path):
    found = run_json("explain", path, "--where", "dt = 'p1'", "--columns", "id, v")
    assert found["partitions"] == {"read": 1, "total": 2, "estimated": False}
    assert found["columns"] == ["id", "v", "dt"]
    assert found["pruned_by"][0]["by"] == "partition"
    assert "1 of 2 partitions" in run("explain", path, "--where", "dt = 'p1'")
    assert run_json("explain", path, "--where", "nothing = 1", code=2)["error"]


def test_show_draws_each_run_of_each_file_group_within_the_width(path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    out = run("show", path)
    assert "merge on read, lsm_tree, version 9, 2 buckets" in out
    assert "3 commits" in out
    assert re.search(r"L0 █+ .* rows  k0\d\d … k0\d\d .* s$", out, re.MULTILINE)
    assert re.search(r"L1 █+ ", out)
    assert max(map(len, out.splitlines())) <= 90


def test_show_gives_the_same_as_json(path):
    document = run_json("show", path)
    assert document["table"]["name"] == "t"
    assert document["table"]["type"] == "MERGE_ON_READ"
    assert document["table"]["commits"] == 3
    levels = {run["level"] for group in document["groups"] for run in group["runs"]}
    assert levels == {"L0", "L1"}
    assert document["file_groups"] == len(document["groups"]) == 4


def test_show_looks_back_and_at_one_partition(path):
    first = lakebed.open_table(None, str(path)).history().column("instant")[-1].as_py()
    document = run_json("show", path, "--as-of", first, "--partition", "p0")
    assert {group["partition"] for group in document["groups"]} == {"p0"}
    assert all(len(group["runs"]) == 1 for group in document["groups"])


def test_show_caps_the_groups_unless_all_are_asked_for(tmp_path):
    where = tmp_path / "many"
    table = lakebed.create_table(None, where, SCHEMA, key="id", buckets=30)
    table.bulk_insert(rows(*range(400)))
    groups = run_json("show", where, "--all")["file_groups"]
    assert groups > 20
    out = run("show", where)
    assert f"and {groups - 20} file group" in out
    assert len(run_json("show", where)["groups"]) == 20
    assert len(run_json("show", where, "--all")["groups"]) == groups


def test_show_of_an_empty_table_says_so(tmp_path):
    lakebed.create_table(None, tmp_path / "e", SCHEMA, key="id")
    out = run("show", tmp_path / "e")
    assert "no commit yet" in out
    assert "(no files)" in out


def test_timeline_lists_the_instants_newest_first(path):
    lines = run("timeline", path).splitlines()
    assert lines[0].split() == [
        "instant", "action", "state", "operation", "files", "rows", "deleted", "size",
    ]  # fmt: skip
    assert [line.split()[3] for line in lines[1:]] == ["upsert", "upsert", "bulk_insert"]
    document = run_json("timeline", path)
    assert [row["rows_written"] for row in document] == [8, 10, 40]


def test_files_lists_the_data_files(path):
    out = run("files", path, "--partition", "p0")
    assert "L1" in out
    assert "p1/" not in out
    found = run_json("files", path)
    assert {row["level"] for row in found} == {"L0", "L1"}
    assert run("files", path).splitlines()[-1].startswith(f"{len(found)} files, ")


def test_compact_merges_the_logs(path):
    before = lakebed.open_table(None, str(path)).read().read_all().sort_by("id")
    out = run("compact", path)
    assert out.strip()
    assert {row["level"] for row in run_json("files", path)} == {"L1"}
    assert lakebed.open_table(None, str(path)).read().read_all().sort_by("id") == before
    assert run("compact", path).strip() == "nothing to compact"
    assert run_json("compact", path) == []


def test_compact_can_plan_now_and_work_later(path):
    planned = run_json("compact", path, "--schedule-only")
    instant = planned["instant"]["requested"]
    assert f"compaction {instant} is requested" in run("show", path)
    [done] = run_json("compact", path, "--execute", instant)
    assert done["instant"] == instant
    assert {row["level"] for row in run_json("files", path)} == {"L1"}
    assert "nothing to compact" in run("compact", path, "--schedule-only")


@pytest.mark.parametrize("mode", ["log", "hybrid"])
def test_compact_takes_a_mode(path, mode):
    run("compact", path, "--mode", mode)
    assert run_json("verify", path)["findings"] == []


def test_compact_refuses_two_ways_at_once(path):
    done = runner.invoke(app, ["compact", str(path), "--schedule-only", "--execute", "1"])
    assert done.exit_code == answers.USAGE
    assert "use only one of them" in done.stderr


def test_clean_and_archive_say_when_there_is_nothing_to_do(path):
    assert run("clean", path).startswith("nothing to clean: ")
    assert run("archive", path).strip() == "nothing to archive"
    assert run_json("clean", path) is None
    assert run_json("archive", path) is None


def test_clean_and_archive_say_what_they_did(tmp_path):
    where = tmp_path / "busy"
    table = lakebed.create_table(
        None, where, SCHEMA, key="id", buckets=1, table_type="COPY_ON_WRITE",
        properties={"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"},
    )  # fmt: skip
    for n in range(6):
        table.upsert(rows(*range(n + 1), ts=n))
    fewer = ("--set", "hoodie.clean.commits.retained=1", "--set", "lakebed.clean.min.age.seconds=0")
    cleaned = run_json("clean", where, *fewer)
    assert cleaned["deleted_files"] > 0
    few = ("--set", "hoodie.keep.min.commits=2", "--set", "hoodie.keep.max.commits=3")
    assert run("archive", where, *few, *fewer).strip() != "nothing to archive"
    assert "archived" in run("timeline", where)
    assert run_json("verify", where)["findings"] == []
    assert len(table.read().read_all()) == 6


def test_an_option_that_nobody_knows_is_wrong_usage(path):
    document = run_json("clean", path, "--set", "hoodie.clean.commit.retained=1", code=2)
    assert document["error"] == "OptionError"


def test_rollback_takes_the_last_commit_back(path):
    last = run_json("timeline", path)[0]["instant"]
    out = run("rollback", path, last)
    assert last in out
    assert last not in {row["instant"] for row in run_json("timeline", path)}
    assert run_json("verify", path)["findings"] == []


def test_an_instant_that_is_not_there_is_wrong_usage_in_a_sentence(path):
    done = runner.invoke(app, ["rollback", str(path), "20200101000000000"])
    assert done.exit_code == answers.USAGE
    assert done.stderr.startswith("lakebed: ")
    assert "Traceback" not in done.stderr


def test_savepoints_are_made_listed_restored_and_deleted(path):
    table = lakebed.open_table(None, str(path))
    assert run("savepoint", "list", path).strip() == "no savepoint"
    made = run_json("savepoint", "create", path, "--comment", "before the load")
    assert made["comment"] == "before the load"
    table.upsert(rows(1, 2, 3, ts=9))
    assert made["instant"] in run("savepoint", "list", path)
    assert [found["instant"] for found in run_json("savepoint", "list", path)] == [made["instant"]]
    restored = run_json("restore", path, made["instant"])
    assert restored["savepoint"] == made["instant"]
    assert not [row for row in table.read().read_all().to_pylist() if row["ts"] == 9]
    assert run("savepoint", "delete", path, made["instant"]).strip().endswith("deleted")
    assert run_json("savepoint", "list", path) == []


def test_upgrade_and_downgrade_move_the_version(path):
    dry = run("upgrade", path, "--to", "10", "--dry-run")
    assert "would be" in dry
    assert run_json("show", path)["table"]["version"] == 9
    assert run_json("upgrade", path, "--to", "10")["to_version"] == 10
    assert run_json("show", path)["table"]["version"] == 10
    assert run_json("downgrade", path, "--to", "9")["to_version"] == 9
    assert run_json("upgrade", path, "--layout", "default")["to_layout"] == "default"
    assert run_json("verify", path)["findings"] == []


def small_files(where):
    """Make a table of many small file groups."""
    table = lakebed.create_table(
        None, where, SCHEMA, key="id", partition_by="dt", index="simple",
        properties={"hoodie.parquet.small.file.limit": "0"},
    )  # fmt: skip
    for n in range(3):
        table.insert(rows(*range(10 * n, 10 * n + 10)))
    return table


def test_cluster_merges_small_file_groups(tmp_path):
    table = small_files(tmp_path / "small")
    before = table.read().read_all().sort_by("id")
    run("cluster", tmp_path / "small", "--partition", "p0")
    groups = [group["partition"] for group in run_json("show", tmp_path / "small")["groups"]]
    assert sorted(groups) == ["p0", "p1", "p1", "p1"]
    assert run_json("cluster", tmp_path / "small") is not None
    assert run_json("show", tmp_path / "small")["file_groups"] == 2
    assert run("cluster", tmp_path / "small").strip() == "nothing to cluster"
    assert table.read().read_all().sort_by("id") == before
    assert run_json("verify", tmp_path / "small")["findings"] == []


def test_cluster_refuses_buckets_in_a_sentence(path):
    done = runner.invoke(app, ["cluster", str(path)])
    assert done.exit_code == answers.USAGE
    assert "bucket" in done.stderr


@pytest.mark.parametrize("level", [(), ("--quick",)])
def test_verify_of_a_sound_table_says_what_was_checked(path, level):
    out = run("verify", path, *level)
    assert "nothing is wrong" in out
    assert "3 commits" in out
    report = run_json("verify", path, *level)
    assert report["findings"] == []
    assert (report["checked"]["key"] > 0) is (not level)


def test_verify_finds_and_repair_mends(path):
    copy = next(entry for entry in path.glob("p0/*.parquet"))
    leftover = copy.with_name(re.sub(r"_\d+-\d+-\d+_", "_99-9-9_", copy.name))
    leftover.write_bytes(copy.read_bytes())
    (path / "p1" / ".hoodie_partition_metadata").unlink()
    out = run("verify", path, code=1)
    assert "warning: " in out
    assert "error: " in out
    assert "repair can fix it" in out
    codes = {finding["code"] for finding in run_json("verify", path, "--quick", code=1)["findings"]}
    assert codes == {str(Code.FILE_LEFTOVER), str(Code.PARTITION_METADATA)}
    planned = run("repair", path, code=1)
    assert "1. delete p0/" in planned
    assert "2 steps to do" in planned
    assert leftover.exists()
    document = run_json("repair", path, code=1)
    assert document["repaired"] is None
    assert "2 steps done" in run("repair", path, "--yes")
    assert not leftover.exists()
    assert copy.exists()
    assert run_json("verify", path)["findings"] == []
    assert run("repair", path, "--yes").strip().endswith("nothing to repair")


def test_a_table_with_bad_properties_is_verified_and_repaired(path):
    file = path / ".hoodie" / "hoodie.properties"
    file.write_bytes(file.read_bytes().replace(b"hoodie.table.name=t\n", b"hoodie.table.name=u\n"))
    assert "checksum" in runner.invoke(app, ["timeline", str(path)]).stderr
    assert "checksum" in run("verify", path, code=1)
    document = run_json("repair", path, "--yes")
    assert [step["mend"] for step in document["repaired"]["done"]] == ["write-checksum"]
    assert run_json("show", path)["table"]["name"] == "u"


def test_what_repair_cannot_mend_is_said_with_advice(path):
    next(path.glob("p0/*.parquet")).unlink()
    out = run("repair", path, "--yes", code=1)
    assert "cannot repair: " in out
    assert "--drop-lost" in out


def test_what_is_lost_is_ended_if_that_is_asked_for(path):
    next(path.glob("p0/*.parquet")).unlink()
    done = runner.invoke(app, ["repair", str(path), "--keep-readable"])
    assert done.exit_code == answers.USAGE
    assert "--drop-lost" in done.stderr
    assert "1 step to do" in run("repair", path, "--drop-lost", code=1)
    out = run("repair", path, "--drop-lost", "--keep-readable", "--yes")
    assert "may be stale" in out
    assert run_json("verify", path)["findings"] == []


def test_a_missing_table_is_a_sentence_and_wrong_usage(tmp_path):
    done = runner.invoke(app, ["timeline", str(tmp_path / "nowhere")])
    assert done.exit_code == answers.USAGE
    assert "no table here" in done.stderr
    assert done.stdout == ""
    document = run_json("timeline", tmp_path / "nowhere", code=answers.USAGE)
    assert document["error"] == "NotFoundError"


def test_debug_shows_the_trace_on_stderr(tmp_path):
    done = runner.invoke(app, ["timeline", str(tmp_path / "nowhere"), "--debug"])
    assert "Traceback" in done.stderr
    assert done.stdout == ""


def test_unknown_commands_and_words_are_wrong_usage(path):
    assert runner.invoke(app, ["frobnicate"]).exit_code == answers.USAGE
    assert runner.invoke(app, ["compact", str(path), "--mode", "odd"]).exit_code == answers.USAGE
    assert runner.invoke(app, ["files", str(path), "-o", "novalue"]).exit_code == answers.USAGE


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (lakebed.LockedError("held"), answers.RETRY),
        (lakebed.UnavailableError("away"), answers.RETRY),
        (lakebed.OptionError("odd"), answers.USAGE),
        (lakebed.CorruptError("cut"), answers.PROBLEM),
        (RuntimeError("oh"), answers.PROBLEM),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_kind_of_error_has_its_exit_code(error, code, capsys):
    with pytest.raises(typer.Exit) as caught, answers.answering(as_json=False, debug=False):
        raise error
    assert caught.value.exit_code == code
    captured = capsys.readouterr()
    assert str(error) in captured.err
    assert captured.out == ""


def test_help_names_every_command():
    out = run("--help")
    for name in (
        "show", "timeline", "files", "compact", "clean", "cluster", "rollback", "savepoint",
        "restore", "archive", "upgrade", "downgrade", "verify", "repair", "serve",
    ):  # fmt: skip
        assert re.search(rf"^\W*{name}\b", out, re.MULTILINE), name
        assert "Usage" in run(name, "--help")


def test_the_command_says_its_version():
    assert run("--version") == f"lakebed {lakebed.__version__}\n"


@pytest.mark.parametrize(
    ("command", "more"), [("show", []), ("files", ["--json"]), ("timeline", [])]
)
def test_a_reader_that_has_seen_enough_is_no_error(path, command, more):
    code = "from lakebed.cli.main import main; main()"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", code, command, str(path), *more],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode in (0, 1)


def test_compaction_of_a_table_without_logs_is_fine_and_says_why(tmp_path):
    lakebed.create_table(None, tmp_path / "cow", SCHEMA, key="id", table_type="COPY_ON_WRITE")
    said = run("compact", tmp_path / "cow")
    assert said == "nothing to compact: cow is COPY_ON_WRITE, whose writes leave no logs\n"
    assert run_json("compact", tmp_path / "cow") == []
    assert run_json("compact", tmp_path / "cow", "--schedule-only") is None


def test_a_clean_without_work_says_why(path, tmp_path):
    assert "the table has 3 commits, and the last 10 are kept" in run("clean", path)
    one = ("clean", path, "--set", "hoodie.clean.commits.retained=1")
    assert "no file group has an older version; compaction creates new versions" in run(*one)
    run("compact", path)
    lakebed.open_table(path).upsert(rows(1, ts=9))
    assert "in use less than 300 seconds ago (lakebed.clean.min.age.seconds)" in run(*one)
    versions = ("--set", "hoodie.clean.policy=KEEP_LATEST_FILE_VERSIONS")
    now = ("--set", "lakebed.clean.min.age.seconds=0")
    assert "the last 3 versions of each file group" in run("clean", path, *versions, *now)
    assert "deleted" in run(*one, *now)
    lakebed.create_table(None, tmp_path / "none", SCHEMA, key="id")
    assert "no commits yet" in run("clean", tmp_path / "none")
    assert run_json("clean", tmp_path / "none") is None
