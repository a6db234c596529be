"""Changing what a table does by itself."""

import pytest

from lakebed.errors import OptionError, UnsupportedError
from lakebed.model.options.services import CleanOptions
from support.tables import batch, make, reopen, user_rows

MOR = {"table_type": "MERGE_ON_READ", "ordering": ("ts",)}


def test_several_writers_can_be_turned_on_later():
    table = make(**MOR)
    table.insert(batch(("a", 1, 1, "p")))
    table.set_properties({"hoodie.write.concurrency.mode": "non_blocking_concurrency_control"})
    other = reopen(table._storage)
    assert other.config.concurrency == "NON_BLOCKING_CONCURRENCY_CONTROL"
    other.upsert(batch(("b", 1, 1, "p")))
    assert len(user_rows(table)) == 2


def test_compaction_after_a_write_can_be_turned_on_later():
    table = make(**MOR)
    table.set_properties(
        {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    )
    table.insert(batch(("a", 1, 1, "p")))
    table.upsert(batch(("a", 2, 2, "p")))
    assert "commit" in table.history()["action"].to_pylist()


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("hoodie.table.recordkey.fields", "v", OptionError),
        ("hoodie.bucket.index.num.buckets", "8", OptionError),
        ("hoodie.clean.automatic", "perhaps", OptionError),
        ("hoodie.clean.trigger.max.commits", "0", OptionError),
        ("hoodie.keep.max.commits", "1", OptionError),
        ("hoodie.nonsense", "1", OptionError),
        ("hoodie.write.concurrency.mode", "NON_BLOCKING_CONCURRENCY_CONTROL", UnsupportedError),
    ],
)
def test_what_cannot_be_changed_or_cannot_be_is_refused(name, value, error):
    table = make()
    before = table._storage.read(".hoodie/hoodie.properties")
    with pytest.raises(error):
        table.set_properties({name: value})
    assert table._storage.read(".hoodie/hoodie.properties") == before


def test_an_older_name_changes_the_option_that_the_table_has_under_its_name_of_today():
    table = make(properties={"hoodie.clean.commits.retained": "7"})
    table.set_properties({"hoodie.cleaner.commits.retained": "3"})
    properties = reopen(table._storage).config.properties
    assert CleanOptions.of(properties).commits_retained == 3
    assert "hoodie.cleaner.commits.retained" not in properties


def test_what_merges_rows_is_settled_when_a_table_is_created():
    # It used to be stored where no merge looks for it.
    with pytest.raises(OptionError, match="cannot be changed after the table was created"):
        make(**MOR).set_properties({"hoodie.write.partial.update.unavailable.value": "?"})
