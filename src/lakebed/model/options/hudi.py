"""Hudi's options that have no effect here: each is either ignored or rejected.

Most of them only tune Hudi, such as its tasks and memory. Options that would change rows or
guarantees, or call another service, are rejected, so that a job that relies on them fails at its
first write.
"""

from typing import Final

from lakebed.model.options.option import Fate, Option, Scope, Subject, flag, listed, text

HUDI: Final = Subject("Everything else of Hudi", Scope.ANYWHERE)

METADATA_TABLE: Final = Option(
    "hoodie.metadata.enable",
    Subject(HUDI.title, Scope.ANYWHERE | Scope.OPEN),
    flag(default=True),
    "no metadata table is written; false in open_table drops an index in Hudi's",
    fate=Fate.IGNORED,
)

_IGNORED: Final = {
    "tasks depend on the file groups": """
        hoodie: file.listing.parallelism finalize.write.parallelism rollback.parallelism
        markers.delete.parallelism archive.delete.parallelism global.index.reconcile.parallelism
        simple.index.parallelism global.simple.index.parallelism bloom.index.parallelism
        bootstrap.parallelism clean.parallelism cleaner.parallelism clustering.max.parallelism
        clustering.group.read.parallelism""",
    "a merge holds a batch of each run": """
        hoodie: common.spillable.diskmap.type common.diskmap.compression.enabled
        write.status.storage.level write.tagged.record.storage.level
        cdc.file.group.iterator.memory.spill.bytes hoodie.memory: merge.fraction merge.max.size
        compaction.fraction compaction.max.size dfs.buffer.max.size spillable.map.path
        writestatus.failure.fraction hoodie.write.buffer: limit.bytes record.cache.limit
        record.sampling.rate hoodie.write.executor: type disruptor.buffer.limit.bytes
        disruptor.wait.strategy""",
    "there is no timeline server": """
        hoodie: filesystem.remote.backup.view.enable file.index.cache.use.spillable.map
        file.index.cache.spillable.mem hoodie.embed.timeline.server: async gzip port reuse.enabled
        threads hoodie.filesystem.view: type secondary.type spillable.dir spillable.mem remote.host
        remote.port remote.timeout.secs rocksdb.base.path incr.timeline.sync.enable""",
    "files that no task reported are deleted before a commit": """
        hoodie: write.markers.type markers.timeline_server_based.batch.interval_ms
        markers.timeline_server_based.batch.num_threads rollback.using.markers
        fail.job.on.duplicate.data.file.detection""",
    "object stores support conditional writes": """
        hoodie: optimistic.consistency.guard.enable optimistic.consistency.guard.sleep_time_ms
        fs.atomic_creation.support hoodie.consistency.check: enabled initial_interval_ms max_checks
        max_interval_ms hoodie.filesystem.operation.retry: enable exceptions initial_interval_ms
        max_interval_ms max_numbers""",
    "keys are found in sorted files": """
        hoodie: simple.index.input.storage.level
        simple.index.use.caching record.index.input.storage.level record.index.use.caching
        bucket.index.query.pruning bucket.index.remote.partitioner.enable hoodie.bloom.index:
        bucketized.checking bucketized.checking.enable.dynamic.parallelism
        fileid.key.sorting.enable filter.dynamic.max.entries filter.type input.storage.level
        keys.per.bucket prune.by.ranges use.caching use.metadata use.treebased.filter""",
    "this release writes no metadata table": """
        hoodie.metadata: auto.delete.partitions auto.initialize bloom.filter.dynamic.max.entries
        bloom.filter.enable bloom.filter.fpp bloom.filter.num.entries bloom.filter.type
        compact.max.delta.commits compact.max.delta.seconds compact.trigger.strategy
        derive.from.datatable.clean.policy dir.filter.regex fallback.enable file.cache.max.size.mb
        global.record.level.index.enable ignore.spurious.deletes index.async
        index.bloom.filter.column.list index.bloom.filter.enable
        index.bloom.filter.file.group.count index.bloom.filter.parallelism
        index.check.timeout.seconds index.column.stats.column.list index.column.stats.enable
        index.column.stats.file.group.count index.column.stats.max.columns.to.index
        index.column.stats.parallelism index.column.stats.processing.mode.override
        index.partition.stats.enable index.partition.stats.file.group.count
        index.partition.stats.parallelism index.expression.enable index.secondary.enable
        index.secondary.parallelism log.compaction.blocks.threshold log.compaction.enable
        max.deltacommits.when_pending max.init.parallelism max.logfile.size max.reader.buffer.size
        max.reader.memory metrics.enable optimized.log.blocks.scan.enable record.index.enable
        record.index.growth.factor record.index.max.filegroup.count record.index.max.filegroup.size
        record.index.min.filegroup.count record.level.index.enable record.preparation.parallelism
        spillable.map.path streaming.write.enabled insert.parallelism clean.async
        cleaner.commits.retained keep.max.commits keep.min.commits""",
    "row groups and encodings depend on the columns": """
        hoodie.parquet: block.size page.size compression.codec compression.ratio dictionary.enabled
        bloom.filter.enabled field_id.write.enabled outputtimestamptype writelegacyformat.enabled
        write.utc-timezone.enabled spark.row.write.support.class""",
    "use hoodie.parquet.max.file.size and hoodie.parquet.small.file.limit": """
        hoodie: hfile.block.size hfile.compression.algorithm hfile.max.file.size logfile.max.size
        logfile.data.block.max.size logfile.to.parquet.compression.ratio
        copyonwrite.insert.split.size copyonwrite.insert.auto.split
        copyonwrite.record.size.estimate record.size.estimation.threshold
        merge.small.file.group.candidates.limit write.record.positions hoodie.orc: block.size
        compression.codec max.file.size stripe.size""",
    "files are sorted by record key": """
        hoodie.bulkinsert: sort.mode sort.suffix.record_key user.defined.partitioner.sort.columns""",
    "services run after a write, or in `lakebed serve`": """
        hoodie: archive.async datasource.compaction.async.enable datasource.clustering.async.enable
        clean.async clean.async.enabled clustering.async.enabled clustering.async.max.commits""",
    "docs/services.md describes cleaning, archiving and compaction": """
        hoodie: commits.archival.batch archive.beyond.savepoint
        timeline.compaction.target.file.max.bytes timeline.manifest.retained.versions
        compaction.lazy.block.read compaction.reverse.log.read compaction.strategy
        compaction.daybased.target.partitions log.compaction.enable log.compaction.inline
        table.services.incremental.enabled hoodie.clean: incremental.enabled allow.multiple
        multiple.enabled max.commits max.commits.to.clean trigger.strategy
        optimize.using.local.engine.context delete.bootstrap.base.file failed.writes.policy
        hoodie.cleaner: incremental.mode delete.bootstrap.base.file policy.failed.writes
        hoodie.clustering: inline.max.commits updates.strategy
        rollback.pending.replacecommit.on.conflict plan.generation.use.local.engine.context""",
    "only with hoodie.write.commit.callback.on": """
        hoodie.write.commit.callback: class http.url http.api.key http.timeout.seconds
        http.custom.headers""",
    "the lock file shows whether its holder is alive": """
        hoodie.write.lock: heartbeat_interval_ms conflict.resolution.strategy
        storage.heartbeat.poll.secs app_id""",
    "an internal setting of Hudi's writer or reader": """
        hoodie: write.conflict.resolution.strategy allow.empty.commit auto.adjust.lock.configs
        block.writes.on.speculative.execution fail.on.timeline.archiving
        fail.writes.on.inline.table.service.exception skip.default.partition.validation
        write.complex.keygen.validation.enable merge.data.validation.enabled avro.schema.validate
        post.commit.failures.ignored write.can.ignore.post.commit.failures
        release.resource.on.completion.enable sensitive.config.keys
        time.generator.max_expected_clock_skew_ms time.generator.reuse.enable time.generator.type
        spark.sql.optimized.writes.enable write.track.event.time.watermark
        insert.shuffle.parallelism upsert.shuffle.parallelism delete.shuffle.parallelism
        embed.timeline.server file.index.enable file.group.reader.enabled
        merge.use.record.positions combine.before.delete bulkinsert.shuffle.parallelism
        hoodie.datasource.read: file.index.listing.mode file.index.list.partitions.from.catalog
        file.index.listing.partition-path-prefix.analysis.enabled
        hoodie.datasource.write.streaming: retry.count retry.interval.ms ignore.failed.batch
        disable.compaction hoodie.write.concurrency.early.conflict:
        detection.enable detection.strategy check.commit.conflict hoodie.write.lock: num_retries
        wait_time_ms_between_retry max_wait_time_ms_between_retry client.num_retries
        client.wait_time_ms_between_retry""",
    "no catalogue is synced: with hoodie.datasource.hive_sync.enable=false": """
        hoodie.datasource.hive_sync: database table username password jdbcurl metastore.uris mode
        use_jdbc partition_fields partition_extractor_class auto_create_database ignore_exceptions
        skip_ro_suffix support_timestamp base_file_format batch_num bucket_sync bucket_sync_spec
        create_managed_table filter_pushdown_enabled filter_pushdown_max_size omit_metadata_fields
        schema_string_length_thresh serde_properties sync_as_datasource sync_comment table.strategy
        table_properties use_spark_catalog assume_date_partitioning""",
    "no catalogue is synced: with hoodie.datasource.meta.sync.enable=false": """
        hoodie: datasource.meta.sync.base.path datasource.meta_sync.condition.sync
        datasource.partition_extractor_class hoodie.meta.sync: client.tool.class decode_partition
        incremental metadata_file_listing no_partition_metadata""",
    "with hoodie.metrics.on=false": """
        hoodie.metrics: executor.enable lock.enable reporter.type reporter.class jmx.host jmx.port
        prometheus.port pushgateway.host pushgateway.port pushgateway.job.name graphite.host
        graphite.port graphite.metric.prefix""",
    "rows never leave Arrow": "hoodie.datasource.write.row.writer.enable",
    "runs are always sorted and merged, with the same result": "compaction_with_merge_sort_enable",
    "a write waits up to 60 s": "hoodie.write.lock.wait_time_ms",
    "these are always skipped": "hoodie: datasource.read.incr.skip_compact datasource.read.incr.skip_cluster",
    "always on, by key ranges and partitions": "hoodie.enable.data.skipping",
}

_REFUSED: Final = {
    "Java classes cannot be run": """
        hoodie: index.class storage.layout.partitioner.class io.factory.class storage.class
        avro.write.support.class writestatus.class write.merge.handle.class
        write.concat.handle.class compact.merge.handle.class fileid.prefix.provider.class
        client.init.callback.classes record.size.estimator.class""",
    "Java classes cannot be run; files are sorted by record key": """
        hoodie.bulkinsert.user.defined.partitioner.class""",
    "services process all partitions": """
        hoodie: compaction.partition.path.regex clean.partition.filter.regex
        clean.partition.filter.selected cleaner.partition.filter.regex
        cleaner.partition.filter.selected""",
    "call cluster, or run `lakebed serve --cluster`": """
        hoodie.clustering: plan.strategy.class execution.strategy.class plan.partition.filter.mode
        plan.strategy.partition.selected plan.strategy.partition.regex.pattern
        plan.strategy.cluster.begin.partition plan.strategy.cluster.end.partition
        plan.strategy.daybased.lookback.partitions schedule.inline""",
    "rows are always sorted by record key": """
        hoodie.layout.optimize: enable strategy curve.build.method data.skipping.enable
        build.curve.sample.size""",
    "call delete_partitions": """
        hoodie.partition.ttl: inline strategy.type management.strategy.type strategy.class
        strategy.days.retain strategy.max.delete.partitions strategy.partition.selected""",
    "validate the rows before the write": """
        hoodie: precommit.validators prewrite.validators hoodie.precommit.validators:
        equality.sql.queries inequality.sql.queries single.value.sql.queries""",
    "an invalid row fails the write": """
        hoodie: errortable.base.path errortable.target.table.name errortable.write.class""",
    "read the Parquet files and bulk_insert them": """
        hoodie.bootstrap: base.path full.input.provider mode.selector mode.selector.regex
        index.class mode.selector.regex.mode partitionpath.translator.class""",
    "the lock is a file, or an object in the store": """
        hoodie.write.lock: zookeeper.url zookeeper.port zookeeper.base_path zookeeper.lock_key
        zookeeper.connection_timeout_ms zookeeper.session_timeout_ms hivemetastore.database
        hivemetastore.table hivemetastore.uris dynamodb.table dynamodb.partition_key
        dynamodb.region dynamodb.billing_mode dynamodb.endpoint_url""",
    "the DataFrame determines the columns": "hoodie: avro.schema write.schema internal.schema",
    "SQL writes need a Java connector; use hoodie.datasource.write.operation": """
        hoodie: spark.sql.insert.into.operation sql.insert.mode sql.bulk.insert.enable
        spark.sql.merge.into.partial.updates spark.sql.writes.prepped""",
    "derived from the schema argument": "hoodie.table.create.schema",
    "derived from the table's name": "hoodie.table.checksum",
    "always 2": "hoodie.timeline.layout.version",
    "Hudi's metadata table is not written": "hoodie.table.metadata.partitions",
    "rows are always clustered by record key": "hoodie.clustering.plan.strategy.sort.columns",
}

OTHERS: Final = (
    *listed(HUDI, Fate.IGNORED, text(), _IGNORED),
    *listed(HUDI, Fate.REFUSED, text(), _REFUSED),
)
