"""The session that `local_session` makes: quiet, and the user's word counts."""

import os
import subprocess
import sys

SCRIPT = """
import lakebed
java = "spark.driver.extraJavaOptions"
asked = {"spark.sql.shuffle.partitions": "3", java: "-Dasked=yes"}
spark = lakebed.local_session(1, "newcomer", asked)
jobs = spark.sparkContext.statusTracker().getJobIdsForGroup
assert jobs(), "none has started the workers"
assert lakebed.local_session(1) is spark
assert spark.range(100).repartition(2).count() == 100
conf = spark.conf.get
assert conf("spark.sql.session.timeZone") == "UTC"
print(conf("spark.master"), conf("spark.app.name"), conf("spark.python.daemon.module"))
print(conf("spark.sql.shuffle.partitions"), conf("spark.driver.memory"))
print(conf(java))
spark.stop()
spark = lakebed.local_session(1, warm_up=False)
jobs = spark.sparkContext.statusTracker().getJobIdsForGroup
assert not jobs(), "the workers were not asked for"
"""


def test_a_newcomer_sees_what_the_program_prints_and_nothing_else():
    # With options of its own the JVM says which it found.
    own = ("SPARK_", "PYSPARK", "JDK_JAVA_OPTIONS")
    env = {key: value for key, value in os.environ.items() if not key.startswith(own)}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", SCRIPT],
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    # The JVM itself says this about a module that Spark asks for; it cannot be turned off.
    expected = "WARNING: Using incubator modules: jdk.incubator.vector"
    assert [line for line in done.stderr.splitlines() if line != expected] == []
    first, second, java = done.stdout.splitlines()
    assert first == "local[1] newcomer lakebed.spark.daemon"
    assert "log4j2" in java
    assert java.endswith(" -Dasked=yes")
    partitions, memory = second.split()
    assert partitions == "3"
    assert 1 <= int(memory.removesuffix("g")) <= 8
