"""Start Apache Hudi's session for many tables of a few rows, where only what a job costs by itself counts.

None of this changes what is written or read, but larger tables would suffer from it: a benchmark
starts hudi_session's.
"""

import os
import pathlib

from hudi_session import CONFIG, start_session
from pyspark.sql import SparkSession

SMALL = {
    # The code runs too seldom for the second compiler and a collector of many threads to pay.
    "spark.driver.extraJavaOptions": (
        CONFIG["spark.driver.extraJavaOptions"] + " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    ),
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Not spark.sql.codegen.wholeStage, without which Spark reads Parquet row by row.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Four megabytes are allocated for each broadcast otherwise, however small.
    "spark.broadcast.blockSize": "64k",
    "spark.hadoop.hoodie.memory.dfs.buffer.max.size": "65536",
}

# What Hudi takes where a read, a write or a statement says nothing else.
HUDI_DEFAULTS = {
    "hoodie.embed.timeline.server": "false",
    # Buffers of 10 and 16 MB for every log file that is opened, and filters of 400 kB per file.
    "hoodie.memory.dfs.buffer.max.size": "65536",
    "hoodie.metadata.max.reader.buffer.size": "65536",
    "hoodie.index.bloom.num_entries": "1000",
}

# Hadoop's local file system starts a process, chmod, for every file and folder that it makes.
# This one is the same, checksum files and all, but lets the JVM set the permissions.
LOCAL_FILES = """
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() { super(new Raw()); }

    public static class Raw extends RawLocalFileSystem {
        public FSDataInputStream open(Path path, int bufferSize) throws IOException {
            return super.open(path, Math.min(bufferSize, 65536));
        }

        public void setPermission(Path path, FsPermission permission) throws IOException {
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
        }
    }
}
"""


def use_local_files(spark: SparkSession) -> None:
    """Make LOCAL_FILES the one file system of this JVM for files; Spark brings the compiler."""
    jvm = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(LOCAL_FILES)
    conf = jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    conf.setClassLoader(compiler.getClassLoader())
    conf.set("fs.file.impl", "LocalFiles")
    # Hadoop keeps one instance for all, whatever the settings of those who ask for it later.
    files = jvm.org.apache.hadoop.fs.FileSystem
    files.closeAll()
    kept = files.get(jvm.java.net.URI("file:///"), conf)
    again = files.get(jvm.java.net.URI("file:///"), spark._jsc.hadoopConfiguration())
    assert kept.getClass().getName() == "LocalFiles"
    assert again.equals(kept)


def forget_defaults(spark: SparkSession) -> None:
    """Leave out of Hadoop's settings what only its own default files say.

    All settings go to each task, every one compressed by itself, and the code knows the defaults.
    """
    conf = spark._jsc.hadoopConfiguration()
    # The classes that bring more default files must be there, or they would bring back all.
    spark._jvm.org.apache.hadoop.mapred.JobConf(conf)
    names = list(conf.getPropsWithPrefix("").keySet())
    own = [n for n in names if not conf.getPropertySources(n)[0].endswith("-default.xml")]
    kept = {name: conf.getRaw(name) for name in own}
    conf.clear()
    for name, value in kept.items():
        conf.set(name, value)


def start_small_session(scratch: str, more: dict[str, str]) -> SparkSession:
    """Start the session, `more` over its settings; `scratch` takes its files, tables of SQL too."""
    said = "".join(f"{name}={value}\n" for name, value in HUDI_DEFAULTS.items())
    pathlib.Path(scratch, "hudi-defaults.conf").write_text(said, encoding="utf-8")
    os.environ["HUDI_CONF_DIR"] = scratch
    spark = start_session(os.path.join(scratch, "warehouse"), more=SMALL | more)
    use_local_files(spark)
    forget_defaults(spark)
    return spark
