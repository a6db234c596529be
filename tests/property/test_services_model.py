"""Every operation and every service, inline and by hand, against a model that knows all of the past."""

import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.errors import InvalidError
from lakebed.format.names.instant_name import Action
from support.lsm_machine import shapes_of
from support.machines import run_machine
from support.services_machine import ARCHIVES, BY_HAND, STEPS, ServicesMachine, TurnsMachine
from support.tables import SCHEMA, make

KINDS = [("MERGE_ON_READ", "bucket"), ("MERGE_ON_READ", "simple"), ("COPY_ON_WRITE", "bucket")]
KINDS += [("MERGE_ON_READ", "global_simple"), ("COPY_ON_WRITE", "simple")]


@pytest.mark.parametrize(("table_type", "index"), KINDS)
def test_a_table_with_all_its_services_holds_what_the_model_holds(table_type: str, index: str):
    class Machine(ServicesMachine):
        shapes = shapes_of(table_type, index)

    run_machine(Machine, 4 if index == "bucket" else 2, len(STEPS))


@pytest.mark.parametrize(("table_type", "index"), KINDS[:2])
def test_two_processes_that_take_turns_hold_what_the_model_holds(table_type: str, index: str):
    class Machine(TurnsMachine):
        shapes = shapes_of(table_type, index)

    run_machine(Machine, 3, len(STEPS))


def upsert(table: Table, value: int) -> None:
    """Write one row, with a column that the table was not created with."""
    grown = SCHEMA.append(pa.field("note", pa.string()))
    rows = pa.table([["a"], [value], [value], ["p"], [f"{value}"]], schema=grown)
    table.upsert(rows, evolve=True)


def test_a_column_stays_when_only_rewrites_are_left_on_the_active_timeline():
    table = make(table_type="MERGE_ON_READ", properties=BY_HAND)
    for value in range(3):
        upsert(table, value)
    table.compact("log")
    table.compact("full")
    few = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}
    assert table.archive(options={**ARCHIVES, **few}) is not None
    actions = {commit.plan_action for commit in table._now().timeline.commits}
    assert actions == {Action.LOGCOMPACTION, Action.COMPACTION}
    assert table.read(columns=["note"]).read_all().to_pylist() == [{"note": "2"}]


def test_a_savepoint_below_later_native_logs_is_in_the_way_of_a_downgrade():
    table = make(table_type="MERGE_ON_READ", table_version=10, properties=BY_HAND)
    upsert(table, 0)
    kept = table.savepoint().instant
    upsert(table, 1)
    with pytest.raises(InvalidError, match=f"savepoint {kept} keeps the native log"):
        table.downgrade(9)
    table.delete_savepoint(kept)
    table.downgrade(9)
    assert table.read(columns=["note"]).read_all().to_pylist() == [{"note": "1"}]
