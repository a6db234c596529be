"""Footer keys of base files, and what may be said there.

parquet.avro.schema       the schema with meta fields, as Avro
hoodie_min_record_key     first and last record key, where Java orders keys as we do
hoodie_max_record_key
hudi.log.is_ordered       `true`: sorted by record key, each key once
org.apache.spark.version  which calendar dates and timestamps are in
"""

FOOTER_AVRO_SCHEMA = "parquet.avro.schema"
FOOTER_MIN_KEY = "hoodie_min_record_key"
FOOTER_MAX_KEY = "hoodie_max_record_key"
FOOTER_IS_ORDERED = "hudi.log.is_ordered"
# Without it Spark, and so Hudi, takes the file's calendar as unknown and refuses dates
# before 1582 and timestamps before 1900. From 3.1 on Spark writes the calendar that we do.
FOOTER_CALENDAR = {"org.apache.spark.version": "4.0.0"}


def same_order_in_java(key: str) -> bool:
    """Tell whether comparing with `key` by UTF-8 and by UTF-16 always agrees.

    The two orders differ only between two characters from U+E000 on. Hudi prunes files by
    UTF-16 order, so a range whose ends hold such a character would hide rows from it.
    """
    return all(character < "\ue000" for character in key)
