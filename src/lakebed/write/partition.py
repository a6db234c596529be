"""Writes the metadata file that marks a folder as a partition for Hudi."""

from lakebed.errors import ExistsError, NotFoundError
from lakebed.format.files.partition_metadata import PARTITION_METADATA_NAME, PartitionMetadata
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import join_path
from lakebed.write.spec.write_spec import WriteSpec


def ensure_partition(spec: WriteSpec, partition: str) -> None:
    """Write the partition's metadata file, without which Hudi sees no rows in the partition."""
    ensure_metadata(spec.storage, partition, spec.instant)


def ensure_metadata(storage: Storage, partition: str, instant: str) -> None:
    """Write the metadata file of a partition that `instant` writes to, unless it exists."""
    path = join_path(partition, PARTITION_METADATA_NAME)
    try:
        storage.head(path)
    except NotFoundError:
        metadata = PartitionMetadata.of(instant, partition)
        try:
            storage.put_if_absent(path, metadata.encode())
        except ExistsError:
            return  # another task of this write created it first
