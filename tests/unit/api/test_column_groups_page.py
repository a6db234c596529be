"""The examples of the page on column groups run as they are written."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "column-groups.md"


def test_the_page_runs_from_top_to_bottom(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 8
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {})
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    # What the comments beside `print` say.
    for line in re.findall(r"#  {3,}(.+)$", "\n".join(blocks), re.MULTILINE):
        assert " ".join(line.split()) in printed
