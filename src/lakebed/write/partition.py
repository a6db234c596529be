"""Make a folder a partition, for Hudi."""

from lakebed.errors import ExistsError, NotFoundError
from lakebed.format.partition_metadata import PARTITION_METADATA_NAME, PartitionMetadata
from lakebed.table.file_group import join_path
from lakebed.write.spec import WriteSpec


def ensure_partition(spec: WriteSpec, partition: str) -> None:
    """Write the partition's metadata file, without which Hudi sees no rows there."""
    path = join_path(partition, PARTITION_METADATA_NAME)
    try:
        spec.storage.head(path)
    except NotFoundError:
        metadata = PartitionMetadata.of(spec.instant, partition)
        try:
            spec.storage.put_if_absent(path, metadata.encode())
        except ExistsError:
            return  # another task of this write was faster
