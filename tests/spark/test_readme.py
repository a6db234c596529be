"""The examples of the README and of the tutorial run as they are written."""

import re
import shlex
from pathlib import Path

import pytest

from lakebed.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```(python|text|console)\n(.*?)```", re.DOTALL)


def blocks(page: str, **replaced: object) -> list[tuple[str, str]]:
    """Return the code blocks of a page with their language."""
    text = (ROOT / page).read_text()
    for old, new in replaced.items():
        text = text.replace(f"/tmp/lakebed-{old}", str(new))
    return BLOCK.findall(text)


def test_the_example_of_the_readme_runs_as_it_stands(spark, capsys):
    ((kind, code),) = blocks("README.md")
    assert kind == "python"
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    out = capsys.readouterr().out
    assert "L1" in out
    assert sorted(names["t"].to_pandas()["id"]) == [2, 3]
    assert names["t"].read(mode="cdc", since=names["first"].completion_time).count() == 3


def test_the_tutorial_prints_what_it_shows(spark, tmp_path, capsys, monkeypatch):
    found = blocks("docs/tutorial.md", tutorial=tmp_path)
    assert len([kind for kind, _ in found if kind == "python"]) >= 10
    names, printed = {}, ""
    for kind, body in found:
        if kind == "python":
            capsys.readouterr()
            exec(compile(body, "docs/tutorial.md", "exec"), names)
            printed = capsys.readouterr().out
        elif kind == "text":
            assert printed.strip() == body.strip()
        else:
            for line in body.splitlines():
                words = shlex.split(line.removeprefix("$ "))
                monkeypatch.setattr("sys.argv", words)
                with pytest.raises(SystemExit) as ended:
                    main()
                assert not ended.value.code, line
