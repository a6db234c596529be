"""In which folder a row lies, whatever the key generator."""

import pyarrow as pa
import pytest

from lakebed.errors import UnsupportedError
from lakebed.format.names.record_key import KeyGenerator
from lakebed.table.config.partitions import partition_column
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writable import check_writable

ROWS = pa.record_batch({"dt": ["a", None], "at": [0, 1704164645], "ns": [1, 2]})
TIMED = {
    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
    "hoodie.keygen.timebased.timezone": "UTC",
}


def config(fields, generator, **more):
    return TableConfig.parse(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": "9",
            "hoodie.timeline.layout.version": "2",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": fields,
            "hoodie.table.keygenerator.type": generator,
            **more,
        },
        "here",
    )


@pytest.mark.parametrize(
    ("fields", "generator", "folders"),
    [
        ("dt", "SIMPLE", ["dt=a", "dt=__HIVE_DEFAULT_PARTITION__"]),
        ("at", "TIMESTAMP", ["at=1970/01", "at=2024/01"]),
        ("ns:simple", "CUSTOM", ["ns=1", "ns=2"]),
        ("at:timestamp", "CUSTOM", ["at=1970/01", "at=2024/01"]),
        (
            "dt:SIMPLE,at:TIMESTAMP,ns:simple",
            "CUSTOM",
            ["dt=a/at=1970/01/ns=1", "dt=__HIVE_DEFAULT_PARTITION__/at=2024/01/ns=2"],
        ),
        ("", "CUSTOM", ["", ""]),
    ],
)
def test_folders_follow_from_the_key_generator(fields, generator, folders):
    hive = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    made = config(fields, generator, **TIMED, **hive)
    check_writable(made)
    assert partition_column(ROWS, made).to_pylist() == folders


@pytest.mark.parametrize(
    ("fields", "generator", "more"),
    [
        ("dt:simple,at:timestamp", "CUSTOM", {}),
        ("dt:simple,at:moon", "CUSTOM", TIMED),
        ("dt", "CUSTOM", TIMED),
        ("dt", "GLOBAL_DELETE", {}),
        ("dt", "USER_PROVIDED", {}),
        ("dt", "AUTO_RECORD", {}),
    ],
)
def test_a_generator_that_we_do_not_spell_is_read_and_not_written(fields, generator, more):
    made = config(fields, generator, **more)
    assert made.key_generator is None
    with pytest.raises(UnsupportedError, match=f"key generator {generator} is unknown"):
        check_writable(made)


def test_a_time_without_settings_is_refused_by_name():
    made = config("at", "TIMESTAMP")
    assert made.key_generator is KeyGenerator.TIMESTAMP
    with pytest.raises(UnsupportedError, match=r"'at': the table's hoodie\.keygen"):
        partition_column(ROWS, made)
