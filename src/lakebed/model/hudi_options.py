"""Hudi's options that a table here neither stores nor obeys: accepted, or refused by name.

Most only make Hudi faster (how many tasks, how much memory, where it looks first). Those that
would change rows or guarantees, or call another service, are refused, so that a job which counts
on them learns it at its first write.
"""

from typing import Final

from lakebed.model.options import Fate, Option

_FLAG: Final = ("true", "false")


def _names(prefix: str, ends: str, fate: Fate, note: str = "") -> tuple[Option, ...]:
    return tuple(Option(f"{prefix}.{end}", fate, note=note) for end in ends.split())


def _ignored(prefix: str, ends: str, note: str = "") -> tuple[Option, ...]:
    return _names(prefix, ends, Fate.INFORMATION, note)


def _refused(prefix: str, ends: str, note: str) -> tuple[Option, ...]:
    return _names(prefix, ends, Fate.REFUSED, note)


def _only(value: str, prefix: str, ends: str, note: str) -> tuple[Option, ...]:
    """Return options of which one value is what happens anyway, and no other can be had."""
    return tuple(
        Option(f"{prefix}.{end}", Fate.HONOURED, (value,), note=note) for end in ends.split()
    )


_TASKS: Final = (
    *_ignored(
        "hoodie",
        "file.listing.parallelism finalize.write.parallelism rollback.parallelism "
        "markers.delete.parallelism archive.delete.parallelism cleaner.parallelism "
        "clean.parallelism global.index.reconcile.parallelism clustering.max.parallelism "
        "clustering.group.read.parallelism simple.index.parallelism "
        "global.simple.index.parallelism bloom.index.parallelism bootstrap.parallelism",
        "tasks follow from the file groups",
    ),
    *_ignored(
        "hoodie",
        "memory.merge.fraction memory.merge.max.size memory.compaction.fraction "
        "memory.compaction.max.size memory.dfs.buffer.max.size memory.spillable.map.path "
        "memory.writestatus.failure.fraction common.spillable.diskmap.type "
        "common.diskmap.compression.enabled write.buffer.limit.bytes "
        "write.buffer.record.cache.limit write.buffer.record.sampling.rate write.executor.type "
        "write.executor.disruptor.buffer.limit.bytes write.executor.disruptor.wait.strategy "
        "write.status.storage.level write.tagged.record.storage.level "
        "cdc.file.group.iterator.memory.spill.bytes",
        "a merge holds a batch of each run",
    ),
    *_ignored(
        "hoodie",
        "embed.timeline.server.async embed.timeline.server.gzip embed.timeline.server.port "
        "embed.timeline.server.reuse.enabled embed.timeline.server.threads "
        "filesystem.view.type filesystem.view.secondary.type filesystem.view.spillable.dir "
        "filesystem.view.spillable.mem filesystem.view.remote.host filesystem.view.remote.port "
        "filesystem.view.remote.timeout.secs filesystem.view.rocksdb.base.path "
        "filesystem.view.incr.timeline.sync.enable filesystem.remote.backup.view.enable "
        "file.index.cache.use.spillable.map file.index.cache.spillable.mem",
        "there is no timeline server",
    ),
    *_ignored(
        "hoodie",
        "write.markers.type markers.timeline_server_based.batch.interval_ms "
        "markers.timeline_server_based.batch.num_threads rollback.using.markers "
        "fail.job.on.duplicate.data.file.detection",
        "files that no task reported are deleted before a commit",
    ),
    *_ignored(
        "hoodie",
        "consistency.check.enabled consistency.check.initial_interval_ms "
        "consistency.check.max_checks consistency.check.max_interval_ms "
        "optimistic.consistency.guard.enable optimistic.consistency.guard.sleep_time_ms "
        "filesystem.operation.retry.enable filesystem.operation.retry.exceptions "
        "filesystem.operation.retry.initial_interval_ms "
        "filesystem.operation.retry.max_interval_ms filesystem.operation.retry.max_numbers "
        "fs.atomic_creation.support",
        "stores are asked for conditional writes",
    ),
)

_INDEXES: Final = (
    *_ignored(
        "hoodie",
        "bloom.index.bucketized.checking "
        "bloom.index.bucketized.checking.enable.dynamic.parallelism "
        "bloom.index.fileid.key.sorting.enable bloom.index.filter.dynamic.max.entries "
        "bloom.index.filter.type bloom.index.input.storage.level bloom.index.keys.per.bucket "
        "bloom.index.prune.by.ranges bloom.index.use.caching bloom.index.use.metadata "
        "bloom.index.use.treebased.filter index.bloom.fpp index.bloom.num_entries "
        "simple.index.input.storage.level simple.index.use.caching "
        "record.index.input.storage.level record.index.use.caching "
        "bucket.index.query.pruning bucket.index.remote.partitioner.enable",
        "keys are found in sorted files",
    ),
    *_refused(
        "hoodie", "index.class storage.layout.partitioner.class", "a class of Java cannot be run"
    ),
    *_refused("hoodie", "record.index.update.partition.path", "use GLOBAL_SIMPLE"),
    *_ignored(
        "hoodie.metadata",
        "auto.delete.partitions auto.initialize bloom.filter.dynamic.max.entries "
        "bloom.filter.enable bloom.filter.fpp bloom.filter.num.entries bloom.filter.type "
        "compact.max.delta.commits compact.max.delta.seconds compact.trigger.strategy "
        "derive.from.datatable.clean.policy dir.filter.regex fallback.enable "
        "file.cache.max.size.mb global.record.level.index.enable ignore.spurious.deletes "
        "index.async index.bloom.filter.column.list index.bloom.filter.enable "
        "index.bloom.filter.file.group.count index.bloom.filter.parallelism "
        "index.check.timeout.seconds index.column.stats.column.list index.column.stats.enable "
        "index.column.stats.file.group.count index.column.stats.max.columns.to.index "
        "index.column.stats.parallelism index.column.stats.processing.mode.override "
        "index.partition.stats.enable index.partition.stats.file.group.count "
        "index.partition.stats.parallelism index.expression.enable index.secondary.enable "
        "index.secondary.parallelism log.compaction.blocks.threshold log.compaction.enable "
        "max.deltacommits.when_pending max.init.parallelism max.logfile.size "
        "max.reader.buffer.size max.reader.memory metrics.enable "
        "optimized.log.blocks.scan.enable record.index.enable record.index.growth.factor "
        "record.index.max.filegroup.count record.index.max.filegroup.size "
        "record.index.min.filegroup.count record.level.index.enable "
        "record.preparation.parallelism spillable.map.path streaming.write.enabled "
        "insert.parallelism clean.async cleaner.commits.retained keep.max.commits "
        "keep.min.commits",
        "this release writes no metadata table",
    ),
)

_FILES: Final = (
    *_ignored(
        "hoodie.parquet",
        "block.size page.size compression.codec compression.ratio dictionary.enabled "
        "bloom.filter.enabled field_id.write.enabled outputtimestamptype "
        "writelegacyformat.enabled write.utc-timezone.enabled spark.row.write.support.class",
        "row groups and encodings follow from the columns",
    ),
    *_ignored(
        "hoodie",
        "hfile.block.size hfile.compression.algorithm hfile.max.file.size orc.block.size "
        "orc.compression.codec orc.max.file.size orc.stripe.size logfile.max.size "
        "logfile.data.block.max.size logfile.to.parquet.compression.ratio "
        "copyonwrite.insert.split.size copyonwrite.insert.auto.split "
        "copyonwrite.record.size.estimate record.size.estimation.threshold "
        "merge.small.file.group.candidates.limit write.record.positions",
        "hoodie.parquet.max.file.size and hoodie.parquet.small.file.limit count",
    ),
    *_ignored(
        "hoodie.bulkinsert",
        "sort.mode sort.suffix.record_key user.defined.partitioner.sort.columns",
        "files are sorted by record key",
    ),
    *_refused(
        "hoodie.bulkinsert",
        "user.defined.partitioner.class",
        "a class of Java cannot be run; files are sorted by record key",
    ),
    *_refused(
        "hoodie",
        "io.factory.class storage.class avro.write.support.class writestatus.class "
        "write.merge.handle.class write.concat.handle.class compact.merge.handle.class "
        "fileid.prefix.provider.class client.init.callback.classes record.size.estimator.class",
        "a class of Java cannot be run",
    ),
)

_SERVICES: Final = (
    *_ignored(
        "hoodie",
        "clean.async clean.async.enabled archive.async clustering.async.enabled "
        "clustering.async.max.commits datasource.compaction.async.enable "
        "datasource.clustering.async.enable",
        "services run after a write, or in `lakebed serve`",
    ),
    *_only("false", "hoodie", "datasource.clustering.inline.enable", "call cluster"),
    *_ignored(
        "hoodie",
        "clean.incremental.enabled cleaner.incremental.mode clean.allow.multiple "
        "clean.multiple.enabled clean.max.commits clean.max.commits.to.clean "
        "clean.trigger.strategy clean.optimize.using.local.engine.context "
        "clean.delete.bootstrap.base.file cleaner.delete.bootstrap.base.file "
        "clean.failed.writes.policy cleaner.policy.failed.writes commits.archival.batch "
        "archive.beyond.savepoint timeline.compaction.target.file.max.bytes "
        "timeline.manifest.retained.versions compaction.lazy.block.read "
        "compaction.reverse.log.read compaction.strategy compaction.daybased.target.partitions "
        "clustering.inline.max.commits clustering.updates.strategy "
        "clustering.rollback.pending.replacecommit.on.conflict "
        "clustering.plan.generation.use.local.engine.context log.compaction.enable "
        "log.compaction.inline table.services.incremental.enabled",
        "docs/services.md says what cleaning, archiving and compaction do",
    ),
    *_refused(
        "hoodie",
        "clean.partition.filter.regex clean.partition.filter.selected "
        "cleaner.partition.filter.regex cleaner.partition.filter.selected "
        "compaction.partition.path.regex",
        "services look at all partitions",
    ),
    *_refused(
        "hoodie.clustering",
        "plan.strategy.class execution.strategy.class plan.partition.filter.mode "
        "plan.strategy.partition.selected plan.strategy.partition.regex.pattern "
        "plan.strategy.cluster.begin.partition plan.strategy.cluster.end.partition "
        "plan.strategy.daybased.lookback.partitions schedule.inline",
        "call cluster, or run `lakebed serve --cluster`",
    ),
    *_refused(
        "hoodie.layout.optimize",
        "enable strategy curve.build.method data.skipping.enable build.curve.sample.size",
        "rows are always sorted by record key",
    ),
    *_refused(
        "hoodie.partition.ttl",
        "inline strategy.type management.strategy.type strategy.class strategy.days.retain "
        "strategy.max.delete.partitions strategy.partition.selected",
        "call delete_partitions",
    ),
    *_only("false", "hoodie.table.service.manager", "enabled", "services run here"),
)

_GUARANTEES: Final = (
    *_refused(
        "hoodie",
        "precommit.validators precommit.validators.equality.sql.queries "
        "precommit.validators.inequality.sql.queries "
        "precommit.validators.single.value.sql.queries prewrite.validators",
        "check the rows before the write",
    ),
    *_only("false", "hoodie", "write.commit.callback.on", "call back after save() returns"),
    *_ignored(
        "hoodie.write.commit.callback",
        "class http.url http.api.key http.timeout.seconds http.custom.headers",
        "only with hoodie.write.commit.callback.on",
    ),
    *_only(
        "false", "hoodie", "errortable.enable write.ignore.failed", "a row that fails stops all"
    ),
    *_refused(
        "hoodie",
        "errortable.base.path errortable.target.table.name errortable.write.class",
        "a row that fails stops the write",
    ),
    *_refused(
        "hoodie.bootstrap",
        "base.path full.input.provider mode.selector mode.selector.regex index.class "
        "mode.selector.regex.mode partitionpath.translator.class",
        "read the Parquet files and bulk_insert them",
    ),
    *_refused(
        "hoodie.write.lock",
        "zookeeper.url zookeeper.port zookeeper.base_path zookeeper.lock_key "
        "zookeeper.connection_timeout_ms zookeeper.session_timeout_ms hivemetastore.database "
        "hivemetastore.table hivemetastore.uris dynamodb.table dynamodb.partition_key "
        "dynamodb.region dynamodb.billing_mode dynamodb.endpoint_url",
        "the lock is a file, or an object in the store",
    ),
    *_ignored(
        "hoodie.write.lock",
        "heartbeat_interval_ms conflict.resolution.strategy storage.heartbeat.poll.secs app_id",
        "the lock shows by itself that its holder lives",
    ),
    *_ignored(
        "hoodie",
        "write.concurrency.early.conflict.detection.enable "
        "write.concurrency.early.conflict.detection.strategy "
        "write.concurrency.early.conflict.check.commit.conflict "
        "write.conflict.resolution.strategy allow.empty.commit auto.adjust.lock.configs "
        "block.writes.on.speculative.execution fail.on.timeline.archiving "
        "fail.writes.on.inline.table.service.exception skip.default.partition.validation "
        "write.complex.keygen.validation.enable merge.data.validation.enabled "
        "avro.schema.validate post.commit.failures.ignored "
        "write.can.ignore.post.commit.failures release.resource.on.completion.enable "
        "sensitive.config.keys datasource.write.streaming.retry.count "
        "datasource.write.streaming.retry.interval.ms "
        "datasource.write.streaming.ignore.failed.batch "
        "datasource.write.streaming.disable.compaction "
        "datasource.write.streaming.checkpoint.identifier "
        "time.generator.max_expected_clock_skew_ms time.generator.reuse.enable "
        "time.generator.type",
    ),
    *_refused(
        "hoodie", "avro.schema write.schema internal.schema", "the DataFrame has the columns"
    ),
    *_refused(
        "hoodie",
        "spark.sql.insert.into.operation sql.insert.mode sql.bulk.insert.enable "
        "spark.sql.merge.into.partial.updates spark.sql.writes.prepped",
        "SQL writes need a connector of Java; use hoodie.datasource.write.operation",
    ),
    *_ignored("hoodie", "spark.sql.optimized.writes.enable"),
)

_ELSEWHERE: Final = (
    *_ignored(
        "hoodie.datasource.hive_sync",
        "database table username password jdbcurl metastore.uris mode use_jdbc "
        "partition_fields partition_extractor_class auto_create_database ignore_exceptions "
        "skip_ro_suffix support_timestamp base_file_format batch_num bucket_sync "
        "bucket_sync_spec create_managed_table filter_pushdown_enabled "
        "filter_pushdown_max_size omit_metadata_fields schema_string_length_thresh "
        "serde_properties sync_as_datasource sync_comment table.strategy table_properties "
        "use_spark_catalog assume_date_partitioning",
        "no catalogue is synced: with hoodie.datasource.hive_sync.enable=false",
    ),
    *_ignored(
        "hoodie",
        "datasource.meta.sync.base.path datasource.meta_sync.condition.sync "
        "meta.sync.client.tool.class meta.sync.decode_partition meta.sync.incremental "
        "meta.sync.metadata_file_listing meta.sync.no_partition_metadata "
        "datasource.partition_extractor_class",
        "no catalogue is synced: with hoodie.datasource.meta.sync.enable=false",
    ),
    Option("hoodie.metrics.on", Fate.HONOURED, ("false",), "no metrics are sent"),
    *_ignored(
        "hoodie.metrics",
        "executor.enable lock.enable reporter.type reporter.class jmx.host jmx.port "
        "prometheus.port pushgateway.host pushgateway.port pushgateway.job.name "
        "graphite.host graphite.port graphite.metric.prefix",
        "with hoodie.metrics.on=false",
    ),
    *_only("false", "hoodie", "metaserver.enabled", "the timeline is in the table"),
    Option("hoodie.write.track.event.time.watermark", Fate.INFORMATION, _FLAG),
)

HUDI_OPTIONS: Final[tuple[Option, ...]] = (
    *_TASKS,
    *_INDEXES,
    *_FILES,
    *_SERVICES,
    *_GUARANTEES,
    *_ELSEWHERE,
)
"""What `model/options.py` and `model/datasource_options.py` say of a name counts before this."""
