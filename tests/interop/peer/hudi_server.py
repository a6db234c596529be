"""Answer JSON commands on standard input with Apache Hudi: one command a line, one answer a line.

The one argument is a JSON object of more Spark settings.

Commands, by their "do":

    {"do": "read",  "path": P, "options": {...}, "into": F}     rows to one Parquet file F
    {"do": "read",  "path": P, "options": {...}}                 rows in the answer, typed JSON
    {"do": "write", "path": P, "rows": F, "options": {...}, "mode": "append"}
    {"do": "sql",   "text": S}                                   rows in the answer, typed JSON
    {"do": "properties", "path": P}                              hoodie.properties as Hudi loads it
    {"do": "shutdown"}

An answer is {"ok": true, ...} or {"ok": false, "error": text}. Everything else that this process
or its JVM prints goes to standard error.

Typed JSON: null, booleans, integers and strings are themselves; every other value is an object
with one entry that names its type, so that 1 and 1.0, a map and a struct, stay apart.
"""

import datetime as dt
import decimal
import glob
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, types
from small_session import start_small_session

Command = dict[str, Any]
Answer = dict[str, Any]


def typed(value: Any, kind: types.DataType) -> Any:
    """Return `value` of Spark type `kind` as typed JSON."""
    match kind:
        case _ if value is None:
            return None
        case types.StructType():
            return {"struct": [[f.name, typed(value[f.name], f.dataType)] for f in kind.fields]}
        case types.ArrayType():
            return {"list": [typed(item, kind.elementType) for item in value]}
        case types.MapType():
            pairs = [[typed(k, kind.keyType), typed(v, kind.valueType)] for k, v in value.items()]
            return {"map": sorted(pairs, key=json.dumps)}
        case types.FloatType() | types.DoubleType():
            return {kind.typeName(): repr(value)}
        case types.DecimalType():
            assert isinstance(value, decimal.Decimal)
            return {"decimal": str(value)}
        case types.BinaryType():
            return {"binary": bytes(value).hex()}
        case types.DateType():
            return {"date": value.isoformat()}
        case types.TimestampType():
            utc = value.astimezone(dt.UTC).replace(tzinfo=None)
            return {"timestamp": utc.isoformat(timespec="microseconds") + "Z"}
        case types.TimestampNTZType():
            return {"timestamp_ntz": value.isoformat(timespec="microseconds")}
        case _:
            return value


def rows_of(frame: DataFrame) -> Answer:
    """Collect a small `frame` into an answer of typed rows."""
    fields = frame.schema.fields
    rows: list[Row] = frame.collect()
    # By position: a SQL result may name two columns alike.
    listed = [[typed(row[i], f.dataType) for i, f in enumerate(fields)] for row in rows]
    return {"columns": [f.name for f in fields], "rows": listed}


def write_parquet(frame: DataFrame, into: str) -> None:
    """Write `frame` as the one Parquet file `into`."""
    folder = into + ".parts"
    frame.coalesce(1).write.mode("overwrite").parquet(folder)
    (part,) = glob.glob(os.path.join(glob.escape(folder), "part-*.parquet"))
    os.replace(part, into)
    shutil.rmtree(folder)


class Server:
    """The commands, each a method that takes the command and gives its answer."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def read(self, command: Command) -> Answer:
        frame = self.spark.read.format("hudi").options(**command["options"]).load(command["path"])
        schema = {"schema": frame.schema.simpleString()}
        if command.get("into") is None:
            return schema | rows_of(frame)
        write_parquet(frame, command["into"])
        return schema

    def write(self, command: Command) -> Answer:
        rows = self.spark.read.parquet(command["rows"])
        writer = rows.write.format("hudi").options(**command["options"])
        writer.mode(command["mode"]).save(command["path"])
        return {}

    def sql(self, command: Command) -> Answer:
        return rows_of(self.spark.sql(command["text"]))

    def properties(self, command: Command) -> Answer:
        jvm = self.spark._jvm
        conf = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(
            self.spark._jsc.hadoopConfiguration()
        )
        client = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        table = client.setConf(conf).setBasePath(command["path"]).build().getTableConfig()
        return {"properties": dict(table.getProps())}

    def answer(self, line: str) -> Answer:
        """Carry one command out; whatever goes wrong is the answer."""
        command = json.loads(line)
        actions: dict[str, Callable[[Command], Answer]] = {
            "read": self.read,
            "write": self.write,
            "sql": self.sql,
            "properties": self.properties,
        }
        # Hudi's incremental query of a merge-on-read table turns this off for whatever comes later.
        self.spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
        try:
            return {"ok": True} | actions[command["do"]](command)
        except Exception as error:  # noqa: BLE001  the edge of the process: the test decides
            traceback.print_exc()
            return {"ok": False, "error": explain(error)}


def explain(error: Exception) -> str:
    """Return the error's chain of causes as text, the root cause last, without stack frames."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return f"{type(error).__name__}: {error}"
    causes = []
    while java is not None and len(causes) < 20:
        lines = str(java.toString()).splitlines()
        causes += [line for line in lines if line.strip() and not line.startswith("\t")]
        java = java.getCause()
    return "\n".join(dict.fromkeys(causes))


def main() -> None:
    """Serve until shutdown or the end of standard input."""
    # The JVM inherits descriptor 1 and prints there at will, so the answers take a copy of it first.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="lakebed-hudi-") as scratch:
        spark = start_small_session(scratch, json.loads(sys.argv[1]))
        server = Server(spark)
        for line in sys.stdin:
            if json.loads(line)["do"] == "shutdown":
                break
            print(json.dumps(server.answer(line)), file=answers, flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
