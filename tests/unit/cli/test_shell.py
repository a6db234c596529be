"""The command `sql`: its output, its JSON, its exit codes, its prompt."""

import json
import os
import pty
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import lakebed
from lakebed.cli.main import app
from lakebed.cli.prompt import completions

runner = CliRunner()
SETUP = "CREATE TABLE t (id INT PRIMARY KEY, v STRING); INSERT INTO t VALUES (1, 'a;b'), (2, NULL)"


def run(*arguments, code=0, **more):
    done = runner.invoke(app, ["sql", *map(str, arguments)], **more)
    assert done.exit_code == code, (done.output, done.exception)
    return done


@pytest.fixture
def warehouse(tmp_path):
    run("-w", tmp_path, "-e", SETUP)
    return str(tmp_path)


def test_statements_are_executed_and_their_rows_drawn(warehouse):
    done = run("-w", warehouse, "-e", "SELECT * FROM t ORDER BY id", "--execute", "DROP TABLE t")
    assert done.stdout.splitlines() == [
        "id  v",
        "1   a;b",
        "2   NULL",
        "(2 rows)",
        "dropped table t",
    ]


def test_a_file_standard_input_and_the_environment(warehouse, tmp_path):
    script = tmp_path / "script.sql"
    script.write_text("-- a comment;\nSELECT v FROM t WHERE id = 1;\nSHOW TABLES;")
    assert "a;b" in run(script, "-w", warehouse).stdout
    done = run(env={"LAKEBED_WAREHOUSE": warehouse}, input="SELECT count(*) AS n FROM t")
    assert done.stdout.splitlines() == ["n", "2", "(1 row)"]


def test_json_is_the_rows_of_one_statement_or_a_list_of_them(warehouse):
    one = run("-w", warehouse, "--json", "-e", "SELECT id FROM t ORDER BY id")
    assert json.loads(one.stdout) == [{"id": 1}, {"id": 2}]
    both = run("-w", warehouse, "--json", "-e", "SELECT 1 AS a; SELECT 2 AS b")
    assert json.loads(both.stdout) == [[{"a": 1}], [{"b": 2}]]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-e", "SELEC 1"], 2, "did you mean SELECT"),
        (["-e", "SELECT * FROM tt"], 2, "did you mean 't'"),
        (["-e", "SELECT * FROM t JOIN t AS u ON t.id = u.id"], 1, "needs a Spark session"),
        (["-e", "CREATE TABLE t (id INT PRIMARY KEY)"], 3, "already exists"),
        (["nothing.sql"], 2, "cannot read nothing.sql"),
        (["a.sql", "-e", "SELECT 1"], 2, "expected a file or --execute"),
    ],
)
def test_an_error_ends_the_script_with_its_exit_code(warehouse, arguments, code, words):
    assert words in run("-w", warehouse, *arguments, code=code).stderr


def test_statements_after_a_failed_one_do_not_run(warehouse):
    run(
        "-w",
        warehouse,
        "-e",
        "DELETE FROM t WHERE id = 1; SELECT nope FROM t; DROP TABLE t",
        code=2,
    )
    assert lakebed.catalog(None, warehouse).table("t").count() == 1


def test_words_are_completed(warehouse):
    catalog = lakebed.catalog(None, warehouse)
    catalog.sql("CREATE TABLE db.other (id INT PRIMARY KEY)")
    assert completions(catalog, "sel") == ["SELECT"]
    assert completions(catalog, "show_com") == ["show_commits", "show_compaction"]
    assert "t" in completions(catalog, "")
    assert completions(catalog, "db.") == ["db.other"]


def test_the_prompt_takes_statements_of_several_lines_and_goes_on_after_an_error(
    warehouse, tmp_path
):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "HOME": str(tmp_path), "TERM": "dumb"}
    call = f"from lakebed.cli.main import main; import sys; sys.argv[1:] = ['sql', '-w', {warehouse!r}]; main()"
    shell = subprocess.Popen(
        [sys.executable, "-c", call], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    os.write(ours, b"SELECT v\nFROM t WHERE id = 1;\nSELECT nope FROM t;\nquit\n")
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the shell has ended
            break
        if not part:
            break
        seen += part
    assert shell.wait(60) == 0
    os.close(ours)
    text = seen.decode()
    assert "a;b" in text
    assert "no column nope" in text
    assert "SELECT nope" in (tmp_path / ".lakebed_history").read_text()


@pytest.mark.parametrize("words", [("-e", "SELECT 1"), ("--help",)])
def test_without_sqlglot_the_command_says_what_to_install(words):
    code = f"""if True:
        import sys
        sys.modules["sqlglot"] = None
        sys.argv[1:] = ["sql", *{words!r}]
        from lakebed.cli.main import main
        main()
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    wanted = "lakebed sql needs sqlglot, which is not installed: pip install 'lakebed[sql]'"
    assert done.stderr.split("\n")[0] == f"lakebed: {wanted}"
    assert "Traceback" not in done.stderr
