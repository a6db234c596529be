"""The front door of SQL: its names, and what is said without sqlglot."""

import subprocess
import sys
import uuid

import pytest

import lakebed
from lakebed.errors import NotFoundError
from support.s3 import S3Server


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


def test_a_warehouse_on_an_object_store_keeps_its_credentials_to_itself(s3_server: S3Server):
    warehouse = f"s3://{s3_server.bucket}/{uuid.uuid4()}"
    catalog = lakebed.catalog(None, warehouse, s3_server.options())
    catalog.sql("CREATE TABLE db.t (id INT PRIMARY KEY, v STRING)")
    catalog.sql(f"CREATE TABLE far (id INT PRIMARY KEY) LOCATION '{warehouse}/elsewhere/far'")
    catalog.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'b')")
    catalog.sql("INSERT INTO far SELECT id FROM db.t")
    assert catalog.sql("SELECT count(*) AS n FROM far").read_all().to_pylist() == [{"n": 2}]
    assert (catalog.tables(), catalog.tables("db")) == (["far"], ["t"])
    catalog.sql("DROP TABLE db.t")
    assert catalog.databases() == ["default", "elsewhere"]
    assert "secret" not in repr(catalog)
    with pytest.raises(NotFoundError) as caught:
        catalog.sql("SELECT * FROM db.t")
    assert "secret" not in str(caught.value)
