import pytest

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.files.partition_metadata import PartitionMetadata, is_partition_metadata_name

T = "20261115060523229"


def test_text_is_that_of_hudi_without_the_date():
    assert PartitionMetadata(T, 1).encode() == (
        b"#partition metadata\ncommitTime=20261115060523229\npartitionDepth=1\n"
    )


@pytest.mark.parametrize(("path", "depth"), [("", 0), ("dt=1", 1), ("2024/01/1", 3)])
def test_depth_counts_the_levels_of_the_path(path, depth):
    found = PartitionMetadata.of(T, path)
    assert found.depth == depth
    assert PartitionMetadata.parse(found.encode(), "f") == found


@pytest.mark.parametrize(
    "data", [b"", b"commitTime=1", b"commitTime=1\npartitionDepth=x", b"partitionDepth=1"]
)
def test_missing_value_is_corrupt(data):
    with pytest.raises(CorruptError, match=r"p/\.hoodie_partition_metadata"):
        PartitionMetadata.parse(data, "p/.hoodie_partition_metadata")


def test_negative_depth_is_refused():
    with pytest.raises(InvalidError):
        PartitionMetadata(T, -1)


def test_marker_may_be_text_parquet_or_orc():
    assert is_partition_metadata_name(".hoodie_partition_metadata")
    assert is_partition_metadata_name(".hoodie_partition_metadata.parquet")
    assert not is_partition_metadata_name(".hoodie_partition_metadata.crc")
    assert not is_partition_metadata_name("hoodie_partition_metadata_x")
