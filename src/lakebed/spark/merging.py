"""Merges and updates on Spark: a join of two DataFrames, and its changes as one.

The changes are persisted while they are written: they are checked and counted before the write,
and a source whose rows differ from one evaluation to the next is evaluated once.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents have it
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from lakebed.errors import InvalidError, SchemaError, UnsupportedError
from lakebed.expr.scope import qualified
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge.rule import Merger
from lakebed.merge.run import COMMIT_TIME_DELETE, FLAGS
from lakebed.scan.scan import plan_scan
from lakebed.spark.errors import translated
from lakebed.spark.locate import stage_joined
from lakebed.spark.read import plan_frame, read_frame
from lakebed.spark.schema import arrow_to_spark, spark_to_arrow
from lakebed.table.snapshot import Snapshot
from lakebed.write.clauses.clause import Act, Expression, Literal, When
from lakebed.write.clauses.columns import Assigned
from lakebed.write.clauses.plan import MergePlan, sides_of
from lakebed.write.clauses.refusals import exists, key_text, lowered, repeated, several_match
from lakebed.write.clauses.targets import check_columns, pushed, without_predicate
from lakebed.write.pipeline import Source
from lakebed.write.spec.status import RowCounts
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import Staged

_TARGET, _SOURCE, _CLAUSE = "_lakebed_target", "_lakebed_source", "_lakebed_clause"
_ACT, _LOWER, _COUNT = "_lakebed_act", "_lakebed_lower", "_lakebed_count"


@dataclass(slots=True)
class SparkMerge:
    """A merge of a DataFrame, or an update, which has none; `read` are the columns it reads."""

    spark: SparkSession
    plan: MergePlan
    frame: DataFrame | None
    merger: Merger | None
    read: Sequence[str]
    exact: bool
    _counts: RowCounts = field(default_factory=RowCounts)

    def source(self) -> Source:
        """Return a source of the rows that the merge writes."""
        plan = self.plan
        return Source(
            pa.schema([plan.schema.field(n) for n in plan.names if n in plan.schema.names]),
            self._stage,
            looks_up=True,
            reads_table=True,
            repeatable=True,
            where=plan.statement.where or pushed(plan),
            counted=lambda: self._counts,
            reads_own_keys=plan.reads_own_keys,
            intake=plan.intake,
        )

    def _stage(self, spec: WriteSpec, snapshot: Snapshot) -> list[Staged]:
        check_columns(self.plan, snapshot)
        changes = self._changes(snapshot).persist()
        try:
            with translated():
                self._check(changes, snapshot)
            return stage_joined(self.spark, self._rows(changes), spec, snapshot)
        finally:
            changes.unpersist()

    def _changes(self, snapshot: Snapshot) -> DataFrame:
        """Return the rows to write, with the clause that made each of them."""
        joined = self._joined(snapshot)
        try:
            chosen = joined.withColumn(_CLAUSE, self._chosen()).where(F.col(_CLAUSE).isNotNull())
            made = self._values(chosen)
            _ = made.schema  # Spark Connect analyses expressions only on request
        except AnalysisException as error:
            call = "update()" if self.plan.statement.on is None else "merge"
            raise InvalidError(f"{call}: {str(error).strip().partition(chr(10))[0]}") from error
        return made

    def _joined(self, snapshot: Snapshot) -> DataFrame:
        statement = self.plan.statement
        target = self._target(snapshot, self.read).withColumn(_TARGET, F.lit(True))
        target = target.alias(statement.target)
        if self.frame is None:
            return target.withColumn(_SOURCE, F.lit(None).cast("boolean"))
        source = self.frame.withColumn(_SOURCE, F.lit(True)).alias(statement.source)
        matched = bool(statement.of(When.MATCHED))
        keeps_source = bool(statement.of(When.NOT_MATCHED))
        keeps_target = bool(statement.of(When.NOT_MATCHED_BY_SOURCE))
        kinds = {(True, True): "full", (True, False): "left", (False, True): "right"}
        kind = kinds.get((keeps_source, keeps_target), "inner")
        condition = _column(statement.on)
        if keeps_source and not keeps_target and not matched:
            kind = "left_anti"
        joined = source.join(target, condition, kind)
        return (
            joined.withColumn(_TARGET, F.lit(None).cast("boolean"))
            if kind == "left_anti"
            else joined
        )

    def _target(self, snapshot: Snapshot, names: Sequence[str]) -> DataFrame:
        where = self.plan.statement.where
        condition = where or pushed(self.plan)
        scan = plan_scan(snapshot, names, condition, self.merger, exact=self.exact)
        # A condition on the target alone only limits the files: the join evaluates it.
        scan = scan if where else without_predicate(scan)
        return read_frame(self.spark, plan_frame(self.spark, scan))

    def _chosen(self) -> Column:
        """Return the number of the first clause that applies to a row, or null."""
        has_target, has_source = F.col(_TARGET).isNotNull(), F.col(_SOURCE).isNotNull()
        kinds = {
            When.MATCHED: has_target & has_source,
            When.NOT_MATCHED: has_source & ~has_target,
            When.NOT_MATCHED_BY_SOURCE: has_target & ~has_source,
        }
        number = F.lit(None).cast("int")
        for at, one in reversed(list(enumerate(self.plan.assigned))):
            clause = one.clause
            applies = kinds[clause.when]
            if clause.condition is not None:
                applies = applies & F.coalesce(
                    self._given(clause.condition, clause.when), F.lit(False)
                )
            # A late row changes nothing, whatever clauses follow.
            number = F.when(applies, self._unless_late(at, one)).otherwise(number)
        return number

    def _unless_late(self, at: int, one: Assigned) -> Column:
        rules = [rule for rule in self.plan.ordering if not one.names.isdisjoint(rule)]
        here = F.lit(at)
        if not (
            one.yields and one.clause.act is Act.UPDATE and len(rules) == len(self.plan.ordering)
        ):
            return here
        if not rules:
            return here
        late = reduce(lambda a, b: a & b, (self._lower(rule, one) for rule in rules))
        return F.when(~late, here)

    def _lower(self, rule: Sequence[str], one: Assigned) -> Column:
        """Return whether the ordering values that a clause assigns are lower than the present ones."""
        new = F.struct(*(self._value(name, one).alias(f"c{at}") for at, name in enumerate(rule)))
        old = F.struct(*(self._of_target(name).alias(f"c{at}") for at, name in enumerate(rule)))
        return F.coalesce(new < old, F.lit(False))

    def _values(self, chosen: DataFrame) -> DataFrame:
        """Return the columns of the new rows, and what happens to each row."""
        types = self._types(chosen)
        columns = [self._by_clause(name, types).alias(name) for name in self.plan.names]
        acts = {Act.UPDATE: "u", Act.INSERT: "i", Act.DELETE: "d"}
        act = _case((F.lit(acts[one.clause.act]) for one in self.plan.assigned), F.lit(None))
        lower = _case((self._lowers(one) for one in self.plan.assigned), F.lit(False))
        return chosen.select(*columns, act.alias(_ACT), lower.alias(_LOWER))

    def _lowers(self, one: Assigned) -> Column:
        rules = [rule for rule in self.plan.ordering if not one.names.isdisjoint(rule)]
        if one.clause.act is not Act.UPDATE or one.yields or not rules:
            return F.lit(False)
        return reduce(lambda a, b: a | b, (self._lower(rule, one) for rule in rules))

    def _by_clause(self, name: str, types: dict[tuple[int, str], Column]) -> Column:
        values = []
        for at, one in enumerate(self.plan.assigned):
            if (at, name) in types:
                values.append(types[at, name])
            elif one.clause.act is Act.INSERT:
                values.append(F.lit(None))
            else:
                values.append(self._of_target(name))
        return _case(values, F.lit(None))

    def _types(self, chosen: DataFrame) -> dict[tuple[int, str], Column]:
        """Return the assigned values, cast to the types of their columns."""
        given = {
            (at, name): self._value(name, one)
            for at, one in enumerate(self.plan.assigned)
            for name in sorted(one.names)
        }
        named = [value.alias(f"c{at}") for at, value in enumerate(given.values())]
        found = [field.dataType for field in chosen.select(*named).schema]
        ansi = str(self.spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"
        return {
            (at, name): _cast(value, kind, self._type(name), name, ansi=ansi)
            for ((at, name), value), kind in zip(given.items(), found, strict=True)
        }

    def _type(self, name: str) -> DataType:
        return arrow_to_spark(pa.schema([self.plan.schema.field(name)])).fields[0].dataType

    def _value(self, name: str, one: Assigned) -> Column:
        """Return the value that a clause assigns to a column, or the present one."""
        if name in one.sources:
            return F.col(_quoted(self.plan.statement.source, one.sources[name]))
        if name not in one.values:
            return self._of_target(name)
        return self._given(one.values[name], one.clause.when)

    def _given(self, given: Expression, when: When) -> Column:
        """Return an expression of a clause; a bare name is a column of the table that has it.

        In Spark, where the rows of both tables are joined, such a name could be ambiguous.
        """
        if isinstance(given, str):
            source = None if self.frame is None else spark_to_arrow(self.frame.schema)
            sides = sides_of(self.plan.statement, self.plan.schema, source)[when]
            with suppress(UnsupportedError):
                given = qualified(given, sides)
        return _column(given)

    def _of_target(self, name: str) -> Column:
        return F.col(_quoted(self.plan.statement.target, name))

    def _identity(self) -> list[Column]:
        return [F.col(f"`{n.replace('`', '``')}`") for n in self.plan.identity or (RECORD_KEY,)]

    def _check(self, changes: DataFrame, snapshot: Snapshot) -> None:
        """Count the changes; raise InvalidError if their result is ambiguous or not visible."""
        key = F.struct(*self._identity())
        is_ = {act: F.when(F.col(_ACT) == act, 1) for act in "iud"}
        row = changes.agg(
            *(F.count(one) for one in is_.values()), F.max(F.when(F.col(_LOWER), key))
        ).collect()[0]
        inserted, updated, deleted, low = row
        if low is not None:
            clause = next(str(o.clause) for o in self.plan.assigned if not o.yields)
            raise lowered(clause, key_text(low.asDict()), self.plan.ordering)
        if self.frame is not None:
            deleted = self._check_single(changes)
            self._check_absent(changes, snapshot)
        self._counts = RowCounts(inserted, updated, deleted)

    def _check_single(self, changes: DataFrame) -> int:
        """Raise InvalidError if a key is changed twice; return the number of deleted keys."""
        keys = self._identity()
        known = reduce(lambda a, b: a & b, (one.isNotNull() for one in keys))
        deletes = F.count(F.when(F.col(_ACT) == "d", 1))
        inserts = F.count(F.when(F.col(_ACT) == "i", 1))
        by_key = (
            changes.where(known)
            .groupBy(*keys)
            .agg(F.count("*").alias(_COUNT), deletes.alias("d"), inserts.alias("i"))
        )
        twice = (F.col(_COUNT) > 1) & (F.col("d") < F.col(_COUNT))
        worst = F.struct(_COUNT, "i", *keys)
        row = by_key.agg(F.count(F.when(F.col("d") > 0, 1)), F.max(F.when(twice, worst))).collect()[
            0
        ]
        deleted, found = row
        if found is not None:
            count, of_inserts, *_ = found
            names = self.plan.identity or (RECORD_KEY,)
            text = key_text(dict(zip(names, found[2:], strict=True)))
            raise repeated(text, count) if of_inserts else several_match(text, count)
        return int(deleted)

    def _check_absent(self, changes: DataFrame, snapshot: Snapshot) -> None:
        """Raise InvalidError if the table has the key of a row to insert."""
        plan = self.plan
        if not plan.statement.inserts or plan.inserts_own_keys or not plan.identity:
            return
        scan = plan_scan(snapshot, plan.identity, None, self.merger)
        there = read_frame(self.spark, plan_frame(self.spark, scan))
        new = changes.where(F.col(_ACT) == "i").select(*self._identity())
        found = new.join(there, list(plan.identity), "left_semi").limit(1).collect()
        if found:
            raise exists(key_text(found[0].asDict()))

    def _rows(self, changes: DataFrame) -> DataFrame:
        rows = changes
        if self.plan.flags_deletes:
            flag = F.when(F.col(_ACT) == "d", COMMIT_TIME_DELETE).otherwise(0)
            rows = rows.withColumn(FLAGS, flag.cast("tinyint"))
        return rows.drop(_ACT, _LOWER)


def upserted_frame(plan: MergePlan, frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return the rows of a merge that is an upsert; raise InvalidError for a repeated key."""
    [insert] = plan.assigned_by(When.NOT_MATCHED)
    merge = SparkMerge(spark, plan, frame, None, (), exact=True)
    named = frame.alias(plan.statement.source)
    types = {field.name: field.dataType for field in frame.schema}
    ansi = str(spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"
    columns = []
    for name in plan.schema.names:
        held = insert.sources[name]
        value = F.col(_quoted(plan.statement.source, held))
        columns.append(
            _cast(value, types[held], merge._type(name), name, ansi=ansi).alias(name)  # noqa: SLF001
        )
    rows = named.select(*columns)
    keys = merge._identity()  # noqa: SLF001 - one module
    known = reduce(lambda a, b: a & b, (one.isNotNull() for one in keys))
    with translated():
        twice = rows.where(known).groupBy(*keys).count().where("count > 1").limit(1).collect()
    if twice:
        *values, count = twice[0]
        raise repeated(key_text(dict(zip(plan.identity, values, strict=True))), count)
    return rows


def _case(values: Iterable[Column], otherwise: Column) -> Column:
    """Return the value of the clause that was chosen."""
    found = otherwise
    for at, value in reversed(list(enumerate(values))):
        found = F.when(F.col(_CLAUSE) == at, value).otherwise(found)
    return found


def _column(given: Expression | None) -> Column:
    if isinstance(given, Column):
        return given
    if isinstance(given, Literal):
        if isinstance(given.value, dict):
            raise InvalidError(
                f"merge: {given.value!r}: on Spark, write a struct or a map as an expression, such "
                "as named_struct('a', 1)"
            )
        return F.lit(given.value)
    if isinstance(given, str):
        return F.expr(given)
    raise InvalidError(f"merge: expected an expression as a string or a Column, found {given!r}")


def _cast(value: Column, kind: DataType, wanted: DataType, name: str, *, ansi: bool) -> Column:
    """Return a value cast to the type of its column; raise SchemaError if it may fail."""
    if kind.simpleString() == wanted.simpleString():
        return value
    nested = (StructType, ArrayType, MapType)
    if isinstance(kind, NullType):
        return value.cast(wanted)
    if isinstance(kind, nested) or isinstance(wanted, nested):
        raise SchemaError(
            f"column {name!r}: expected {wanted.simpleString()}, found {kind.simpleString()}; cast "
            "the value"
        )
    if not ansi:
        raise SchemaError(
            f"column {name!r}: expected {wanted.simpleString()}, found {kind.simpleString()}: without "
            "spark.sql.ansi.enabled, a value that does not fit would be changed; cast the value"
        )
    return value.cast(wanted)


def _quoted(alias: str, name: str) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in (alias, name))
