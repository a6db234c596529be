"""Every code block of the documentation is run by a test, or says why not."""

import re
from collections import Counter

import pytest

import lakebed
from lakebed.cli.commands import COMMANDS
from lakebed.model.options.registry import find_option
from support.pages import (
    NOT_RUN,
    ON_SPARK,
    ROOT,
    RUN,
    SHOWN,
    Run,
    all_pages,
    blocks_of,
    marked_blocks,
    matched,
    run_pages,
)

# Each block that no test can run, by its reason. A new reason, or one more block, is a decision.
NOT_RUN_BLOCKS = {
    "it installs packages": 2,
    "it needs Docker": 1,
    "it needs a Kubernetes cluster": 1,
    "it needs a YARN cluster": 1,
}


def test_a_block_is_run_or_says_why_not():
    assert (
        Counter(block.title.removeprefix(NOT_RUN) for _, block in marked_blocks()) == NOT_RUN_BLOCKS
    )


def test_a_block_that_is_not_run_is_output_or_a_drawing():
    for page in all_pages():
        for block in blocks_of(page):
            if block.is_run or block.title.startswith(NOT_RUN):
                continue
            where = f"{page}:{block.line + 1}"
            assert block.kind in SHOWN, f"{where}: {block.kind} is run by no test: use {RUN}"
            code = [line for line in block.body.splitlines() if line.startswith(STARTS)]
            assert not code, f"{where} is code: name its language"


STARTS = (
    "$ ",
    "import ",
    "from ",
    "t.",
    "spark.",
    "lakebed.",
    "SELECT ",
    "INSERT ",
    "CREATE ",
    "pip ",
    "docker ",
)


def test_every_block_of_every_page_is_found():
    for page in all_pages():
        text = (ROOT / page).read_text("utf-8")
        fences = sum(line.lstrip().startswith("```") for line in text.splitlines())
        assert fences == 2 * len(blocks_of(page)), page


def test_every_page_with_blocks_is_run_once():
    with_spark, in_process = run_pages(spark=True), run_pages(spark=False)
    assert set(with_spark) == ON_SPARK
    assert not set(with_spark) & set(in_process)


def test_output_is_compared_with_the_block_before_it():
    for page in all_pages():
        blocks = blocks_of(page)
        for before, block in zip([None, *blocks], blocks, strict=False):
            if block.kind == "text":
                assert before is not None, page
                assert before.kind == "python", f"{page}:{block.line + 1}"
                assert before.is_run, f"{page}:{block.line + 1}"
                assert block.body.strip(". \n"), f"{page}:{block.line + 1} shows nothing"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("3 rows in 4.1 KiB, 9 s ago", "3 rows in 27 B, 81 ms ago"),
        ("compaction 20261115151557342 is planned", "compaction 20261119212315026 is planned"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("a\n...", "a\nb\nc"),
    ],
)
def test_output_may_differ_in_times_sizes_and_lines_left_out(wanted, found):
    assert matched(wanted, found) is not None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("3 rows in 4.1 KiB", "4 rows in 4.1 KiB"),
        ("a\nb", "a"),
        ("a", "a\nb"),
        ("a\n...\nd", "a\nb\nc"),
        ("a\n...\nc", "a\nb\nc\nd"),
    ],
)
def test_output_that_says_something_else_is_found(wanted, found):
    assert matched(wanted, found) is None


def test_an_instant_means_the_same_one_on_the_whole_page(tmp_path):
    run = Run("docs/cli.md", tmp_path)
    run.compare("plan 20261115151557342", "plan 20261119212315026", "here")
    assert run.placed("rollback 20261115151557342") == "rollback 20261119212315026"
    with pytest.raises(AssertionError, match="20261115151557342"):
        run.compare("did 20261115151557342", "did 20261119212319999", "here")


def test_a_comment_beside_a_print_and_a_command_that_fails_are_compared(tmp_path):
    run = Run("docs/cli.md", tmp_path)
    run.run_python("print('one')    #    one", "here")
    with pytest.raises(AssertionError):
        run.run_python("print('one')    #    two", "here")
    run.run_console("$ true\n", "here")
    with pytest.raises(AssertionError):
        run.run_console("$ false\n", "here")


# Pages for users; those on decisions and bytes name properties of files as well.
USER_PAGES = [page for page in all_pages() if page.count("/") < 2]
# Delta's calls, and properties of Hudi's tables, which are no options.
OTHERS = {"alias", "optimize", "vacuum"}
PROPERTIES = {
    "hoodie.meta.fields.mode",
    "hoodie.partition.metafile.use.base.format",
    "hoodie.properties",
}


@pytest.mark.parametrize("page", USER_PAGES)
def test_what_the_words_of_a_page_name_exists(page):
    text = (ROOT / page).read_text("utf-8")
    of_table = set(re.findall(r"(?<![\w.])t\.([a-z_]+)\(", text)) - OTHERS
    assert not {name for name in of_table if not hasattr(lakebed.Table, name)}
    of_package = set(re.findall(r"(?<![\w./`])lakebed\.([a-z_]+)\(", text))
    assert not {name for name in of_package if not hasattr(lakebed, name)}
    assert set(re.findall(r"`lakebed ([a-z]+)\b", text)) <= set(COMMANDS)
    options = set(re.findall(r"(?<![\w.])hoodie\.[a-z][\w.-]*\w(?![\w.(*<…-])", text)) - PROPERTIES
    assert not {name for name in options if not find_option(name) and not find_option(name.lower())}
