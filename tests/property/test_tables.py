"""Every operation and every service on every kind of table, against a model of all of its past."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from lakebed.api.table import Table
from lakebed.errors import InvalidError
from lakebed.format.logs.cdc import ENABLED, LOGGING_MODE, LoggingMode
from lakebed.format.names.instant_name import Action
from support.machine import OPERATIONS, InMemory, run_machine, shapes_of
from support.machine_services import ARCHIVES, BY_HAND, STEPS, ServicesMachine, TurnsMachine
from support.tables import SCHEMA, make

ON_READ, ON_WRITE = "MERGE_ON_READ", "COPY_ON_WRITE"
SERVICED = [(ON_READ, "bucket"), (ON_READ, "simple"), (ON_WRITE, "bucket")]
SERVICED += [(ON_READ, "global_simple"), (ON_WRITE, "simple")]
LOGGED = [*SERVICED[:3], (ON_WRITE, "global_simple")]


@pytest.mark.parametrize("index", ["bucket", "simple", "global_simple", "global_simple, staying"])
@pytest.mark.parametrize("table_type", [ON_READ, ON_WRITE])
def test_a_table_holds_what_the_model_holds(table_type: str, index: str):
    class Machine(InMemory):
        shapes = shapes_of(table_type, index.split(",", maxsplit=1)[0], stays="staying" in index)

    # Most of what can go wrong is in logs.
    share = 8 if (table_type, index) == (ON_READ, "bucket") else 4
    run_machine(Machine, share, len(OPERATIONS))


@pytest.mark.parametrize(("table_type", "index"), SERVICED)
def test_a_table_with_all_its_services_holds_what_the_model_holds(table_type: str, index: str):
    class Machine(ServicesMachine):
        shapes = shapes_of(table_type, index)

    shares = {(ON_READ, "bucket"): 5, (ON_READ, "simple"): 4, (ON_WRITE, "bucket"): 3}
    run_machine(Machine, shares.get((table_type, index), 2), len(STEPS))


@pytest.mark.parametrize(("table_type", "index"), SERVICED[:2])
def test_two_processes_that_take_turns_hold_what_the_model_holds(table_type: str, index: str):
    class Machine(TurnsMachine):
        shapes = shapes_of(table_type, index)

    run_machine(Machine, 2, len(STEPS))


class ChangesMachine(ServicesMachine):
    """Reads changes after every step, and from every commit on at the end.

    Some tables log them, in one way or another.
    """

    looks = ("read_changes",)
    logging = st.sampled_from(
        [None, *({ENABLED: "true", LOGGING_MODE: mode} for mode in LoggingMode)]
    )

    def teardown(self) -> None:
        """Read the changes between all commits that follow each other, and from each to the last."""
        if self.is_sound:
            ends = [at for at, _ in self.completions() if self.is_promised(at)]
            for one, other in pairwise(ends):
                self.check_changes(one, other)
                self.check_changes(one, ends[-1])
        super().teardown()


@pytest.mark.parametrize(("table_type", "index"), LOGGED)
def test_changes_lead_from_one_state_to_the_next(table_type: str, index: str):
    class Machine(ChangesMachine):
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
