"""The front door of SQL: its names, and what is said without sqlglot."""

import subprocess
import sys

import lakebed


def test_the_package_and_the_function_are_called_alike():
    code = (
        "import lakebed.sql.syntax.words, lakebed\n"
        "rows = lakebed.sql(None, 'SELECT :a AS a', a=5)\n"
        "assert rows.read_all().to_pylist() == [{'a': 5}]\n"
        "import lakebed.sql.front\n"
        "assert lakebed.sql.front.sql(None, 'SELECT 1').read_all().num_rows == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_sqlglot_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['sqlglot'] = None\n"
        "import lakebed\n"
        "try:\n    lakebed.sql(None, 'SELECT 1')\n"
        "except lakebed.UnsupportedError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "pip install 'lakebed[sql]'" in done.stdout


def test_a_catalogue_says_what_it_is_of():
    catalog = lakebed.catalog(None, "memory://sql/front")
    assert repr(catalog) == "Catalog(memory://sql/front)"
    assert lakebed.sql(catalog, "SHOW TABLES").read_all().num_rows == 0
