"""The examples of the pages that need no Spark session run as they are written."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    ("name", "count"), [("column-groups", 8), ("convert", 1), ("polars-duckdb", 4)]
)
def test_a_page_runs_from_top_to_bottom(name, count, capsys):
    page = DOCS / f"{name}.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == count
    exec(compile("\n".join(blocks), str(page), "exec"), {})
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    # What the comments beside `print` say; `...` stands for the rest of a line.
    for line in re.findall(r"#  {3,}(.+)$", "\n".join(blocks), re.MULTILINE):
        said = " ".join(line.split())
        assert any(text.startswith(said.removesuffix("...")) for text in printed), said
