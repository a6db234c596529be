"""Options of `format("lakebed")`: what a job that comes from Hudi brings along."""

import pytest

from lakebed.errors import InvalidError, OptionError
from lakebed.model.options.read import ReadOptions
from lakebed.model.options.save import SaveOptions

QUERY = "hoodie.datasource.query.type"
BEGIN = "hoodie.datasource.read.begin.instanttime"


def read(**options: str) -> ReadOptions:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return ReadOptions.parse({"path": "t", **given})[0]


def save(given: dict[str, str]) -> SaveOptions:
    return SaveOptions.parse({"path": "t", **given})[0]


def test_a_read_takes_the_options_of_a_write_and_a_write_those_of_a_read():
    assert read(**{"hoodie.datasource.write.recordkey.field": "id"}) == read()
    assert save({QUERY: "snapshot"}) == save({})


def test_a_write_takes_no_moment_of_the_past():
    # Hudi 1.2.0 swallows it, and writes to the table as it is.
    with pytest.raises(OptionError, match=r"as.of.instant cannot be given with a write.*restore"):
        save({"as.of.instant": "20240101000000000"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"hoodie.datasource.write.recordkey": "id"},
            "did you mean hoodie.datasource.write.record",
        ),
        ({"header": "true"}, "unknown option 'header'"),
        ({"hoodie.datasource.hive_sync.enable": "true"}, "expected false .no catalogue is synced"),
        ({"hoodie.metrics.on": "true"}, "expected false .no metrics are sent"),
        ({"hoodie.errortable.enable": "true"}, "expected false .an invalid row fails the write"),
        ({"hoodie.precommit.validators": "x"}, "cannot be given: validate the rows"),
        ({"hoodie.index.type": "HBASE"}, "expected SIMPLE or GLOBAL_SIMPLE or BLOOM"),
        ({"hoodie.datasource.write.table.type": "COW"}, "expected COPY_ON_WRITE"),
        (
            {"hoodie.table.name": "a", "hoodie.datasource.write.table.name": "b"},
            "set the same option",
        ),
    ],
)
def test_what_a_write_cannot_honour_is_refused_by_name(given, message):
    with pytest.raises(OptionError, match=message):
        save(given)


def test_options_of_a_write_become_the_properties_of_a_table():
    options = save(
        {
            "hoodie.datasource.write.recordkey.field": "a, b",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.operation": "BULK_INSERT",
            "hoodie.index.type": "global_bloom",
            "hoodie.bloom.index.update.partition.path": "False",
            "hoodie.upsert.shuffle.parallelism": "2",
            "lakebed.storage.endpoint": "http://localhost:9000",
        }
    )
    assert options.operation == "bulk_insert"
    assert options.properties == {
        "hoodie.table.recordkey.fields": "a, b",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.index.type": "GLOBAL_BLOOM",
        "hoodie.simple.index.update.partition.path": "false",
    }
    assert options.storage_options == {"endpoint": "http://localhost:9000"}
    assert options.given == {
        "hoodie.table.recordkey.fields": "hoodie.datasource.write.recordkey.field",
        "hoodie.table.ordering.fields": "hoodie.datasource.write.precombine.field",
        "hoodie.index.type": "hoodie.index.type",
        "hoodie.simple.index.update.partition.path": "hoodie.bloom.index.update.partition.path",
    }


def test_query_types_have_hudis_names():
    assert read().mode == "snapshot"
    assert read(hoodie__datasource__view__type="realtime").mode == "snapshot"
    assert read(**{QUERY: "READ_OPTIMIZED"}).mode == "read_optimized"
    increment = read(**{QUERY: "incremental", BEGIN: "000"})
    assert (increment.mode, increment.since) == ("incremental", "earliest")
    cdc = {"hoodie.datasource.query.incremental.format": "cdc"}
    assert read(**{QUERY: "incremental", BEGIN: "0", **cdc}).mode == "cdc"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({QUERY: "incremental"}, f"needs {BEGIN}"),
        ({BEGIN: "0"}, "cannot be combined with"),
        (
            {QUERY: "incremental", BEGIN: "0", "as.of.instant": "1"},
            "as.of.instant cannot be combined",
        ),
        ({QUERY: "fast"}, "expected snapshot or read_optimized or incremental"),
        ({"hoodie.datasource.merge.type": "skip_merge"}, "rows twice"),
        ({"as.of.instnat": "1"}, "did you mean as.of.instant"),
    ],
)
def test_what_a_read_cannot_honour_is_refused_by_name(given, message):
    with pytest.raises(OptionError, match=message):
        read(**given)


def test_a_path_is_wanted_and_only_one():
    with pytest.raises(InvalidError, match="CREATE TEMPORARY VIEW"):
        ReadOptions.parse({})
    with pytest.raises(InvalidError, match="one path"):
        ReadOptions.parse({"paths": '["a","b"]'})
