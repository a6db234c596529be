"""The house keeps its own rules: names, sizes, documents that tell the truth."""

import ast
import inspect
import re
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

import lakebed
from lakebed import errors
from lakebed.table.config.writer_index import WriterIndex

ROOT = Path(__file__).resolve().parents[2]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SOURCES = sorted((ROOT / "src" / "lakebed").rglob("*.py"))
PAGES = [
    ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
]
PAGES += sorted((ROOT / "docs").rglob("*.md"))


def test_all_is_sorted_and_every_name_is_there():
    assert list(lakebed.__all__) == sorted(lakebed.__all__)
    for name in lakebed.__all__:
        assert getattr(lakebed, name) is not None


def test_no_module_holds_two_ideas():
    too_long = {path.name: n for path in SOURCES if (n := len(path.read_text().splitlines())) > 450}
    assert not too_long


def test_no_folder_holds_more_than_can_be_seen_at_once():
    modules = Counter(path.parent for path in SOURCES)
    assert not {str(folder.relative_to(ROOT)): n for folder, n in modules.items() if n > 20}


def test_no_function_takes_more_than_eight_arguments():
    # Users name the options of a table and of a command one by one; kernels take arrays only.
    spared = {
        "create.py",
        "opening.py",
        "maintain.py",
        "intake.py",
        "loading.py",
        "kernel.py",
        "twin.py",
    }
    long = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if path.name not in spared and isinstance(node, ast.FunctionDef):
                args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                named = [arg for arg in args if arg.arg not in ("self", "cls")]
                if len(named) > 8:
                    long[f"{path.relative_to(ROOT)}:{node.name}"] = len(named)
    assert not long


def test_only_index_asks_of_what_kind_an_index_is():
    kinds = {kind.__name__ for kind in get_args(WriterIndex)}
    allowed = {"src/lakebed/index", "src/lakebed/table/config/writer_index.py"}
    asked = []
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        if name in allowed or str(path.parent.relative_to(ROOT)) in allowed:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            tests = isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
                "isinstance",
                "type",
            )
            tests |= isinstance(node, ast.Compare | ast.MatchClass)
            named = {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name)}
            if tests and named & kinds:
                asked.append(f"{name}:{node.lineno}")
    assert not asked, "give the value in table/config/writer_index.py, or its strategy, a fact"


def _imported_from_lakebed(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lakebed":
            names |= {alias.asname or alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            ours = [alias for alias in node.names if alias.name.split(".")[0] == "lakebed"]
            names |= {alias.asname or "lakebed" for alias in ours}
    return names


def _is_ours(node: ast.expr, ours: set[str]) -> bool:
    """Return whether an expression names something of lakebed, not a module that it imports."""
    if isinstance(node, ast.Constant):
        return str(node.value).startswith("lakebed.")
    foreign = {"os", "tempfile", "sys"}
    while isinstance(node, ast.Attribute) and node.attr not in foreign:
        node = node.value
    return isinstance(node, ast.Name) and node.id in ours


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_test_patches_what_is_ours(path):
    """What varies is passed in, or is a real situation."""
    tree = ast.parse(path.read_text())
    ours = _imported_from_lakebed(tree)
    patched = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ("setattr", "delattr", "patch", "object") and _is_ours(node.args[0], ours):
                patched.append(node.lineno)
        targets = node.targets if isinstance(node, ast.Assign) else []
        patched += [
            node.lineno
            for target in targets
            if isinstance(target, ast.Attribute) and _is_ours(target, ours)
        ]
    assert not patched


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_every_error_is_drawn_in_the_tree_and_raised_somewhere():
    text = errors.__doc__
    code = "\n".join(path.read_text() for path in SOURCES if path.name != "errors.py")
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.LakebedError):
            assert name in text
            assert name == "LakebedError" or re.search(rf"\b{name}\(", code), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_in_the_documents_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
    folders = {path.name for path in (ROOT / "src" / "lakebed").iterdir() if path.is_dir()}
    for path in re.findall(r"`(\w+/\w+\.py)`", text):
        if path.split("/")[0] in folders:
            assert (ROOT / "src" / "lakebed" / path).exists(), path


def test_the_layers_in_the_architecture_are_the_folders():
    drawn = set(re.findall(r"\b(\w+)/", (ROOT / "ARCHITECTURE.md").read_text().split("```")[1]))
    folders = {path.parent.name for path in SOURCES if path.name == "__init__.py"} - {"lakebed"}
    assert folders <= drawn


def test_every_make_target_of_the_documents_exists():
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"(?:`|^)make ([a-z]+)\b", page.read_text(), re.MULTILINE):
            assert target in known, (page.name, target)


def test_every_page_is_in_the_navigation_and_in_the_index():
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"index.md"}
    nav = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert set(nav) == pages | {"index.md"}
    index = re.findall(
        r"^- \[.+\]\((\S+\.md)\): \S+ .*\.$", (docs / "index.md").read_text(), re.MULTILINE
    )
    assert sorted(index) == sorted(pages)


def test_the_reference_names_everything_that_the_package_offers():
    text = (ROOT / "docs" / "api.md").read_text()
    named = {name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}
    named |= set(vars(errors))
    assert set(lakebed.__all__) - {"__version__"} <= named


def public_calls():
    """Return the functions of the front door and the methods of a table, by name."""
    calls = {
        name: getattr(lakebed, name) for name in ("create_table", "open_table", "local_session")
    }
    methods = inspect.getmembers(lakebed.Table, inspect.isfunction)
    return calls | {f"Table.{name}": call for name, call in methods if not name.startswith("_")}


@pytest.mark.parametrize("name", public_calls())
def test_the_reference_explains_every_argument(name):
    call = public_calls()[name]
    text = inspect.getdoc(call)
    words = " ".join(text.split())
    if re.search(r"arguments (of|are)|arguments, result and errors are those of", words):
        return
    for argument in inspect.signature(call).parameters:
        assert argument == "self" or re.search(
            rf"^    {argument}: |`{argument}", text, re.MULTILINE
        )


def test_the_options_page_is_what_the_code_says():
    page = runpy.run_path(str(ROOT / "scripts" / "options_page.py"))
    assert page["PAGE"].read_text() == page["text"](), "run python scripts/options_page.py"


def test_the_figures_are_what_the_script_draws():
    script = runpy.run_path(str(ROOT / "scripts" / "figures.py"))
    for name, draw in script["FIGURES"].items():
        drawn = (script["FOLDER"] / name).read_text("utf-8")
        assert drawn == draw(), "run python scripts/figures.py"


def test_a_missing_or_old_java_is_said_in_a_sentence(tmp_path):
    script = ROOT / "scripts" / "check-java"
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    for home, words in (
        (tmp_path / "none", "Java is missing"),
        (tmp_path / "old", "11 is too old"),
    ):
        done = subprocess.run(
            [script],
            env={"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert words in done.stderr
        assert "Java 17" in done.stderr


def loaded_by(statement: str) -> set[str]:
    """Return the packages that a fresh process has loaded after a statement."""
    code = f"{statement}; import sys; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    heavy = {"numba", "pandas", "pyarrow", "pyspark", "rich", "typer"}
    assert not loaded_by("import lakebed; lakebed.ConflictError, dir(lakebed)") & heavy


def test_opening_a_table_needs_no_pandas_and_no_compiler():
    heavy = {"numba", "pandas", "pyspark", "rich", "typer"}
    assert not loaded_by("import lakebed; lakebed.open_table, lakebed.Table") & heavy


@pytest.mark.parametrize(
    ("words", "shown"), [(["--help"], "savepoint"), ([], "savepoint"), (["--version"], "lakebed")]
)
def test_the_list_of_commands_and_the_version_load_none_of_the_engine(words, shown):
    heavy = {"numba", "numpy", "obstore", "pandas", "pyarrow", "pyspark"}
    call = f"from lakebed.cli.main import main; sys.argv[1:] = {words}; main()"
    found = loaded_by(f"import sys\ntry: {call}\nexcept SystemExit: pass\nNone")
    assert {shown, "typer"} <= found
    assert not found & heavy


def test_a_name_that_the_package_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lakebed.nothing  # noqa: B018 - asked for on purpose
