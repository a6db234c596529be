"""Incremental and change data reads against a model that knows all of the past."""

from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from lakebed.format.logs.cdc import ENABLED, LOGGING_MODE, LoggingMode
from support.lsm_machine import shapes_of
from support.machines import run_machine
from support.services_machine import STEPS, ServicesMachine

KINDS = [("MERGE_ON_READ", "bucket"), ("COPY_ON_WRITE", "bucket"), ("MERGE_ON_READ", "simple")]
KINDS += [("COPY_ON_WRITE", "global_simple")]


class ChangesMachine(ServicesMachine):
    """Reads changes after every step, and from every commit on at the end.

    Some tables log them, in one way or another.
    """

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from([None, *LoggingMode]), label="logging")
        self.more = {ENABLED: "true", LOGGING_MODE: mode} if mode else {}
        self.logs_changes = mode is not None
        super().create(data)

    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        """Do what comes next, then read the changes between two commits."""
        ServicesMachine.act.__wrapped__(self, data, "read_changes")

    def teardown(self) -> None:
        """Read the changes between all commits that follow each other, and from each to the last."""
        if self.is_sound:
            ends = [at for at, _ in self._completions() if self._is_promised(at)]
            for one, other in pairwise(ends):
                self._check_changes(one, other)
                self._check_changes(one, ends[-1])
        super().teardown()


@pytest.mark.parametrize(("table_type", "index"), KINDS)
def test_changes_lead_from_one_state_to_the_next(table_type: str, index: str):
    class Machine(ChangesMachine):
        shapes = shapes_of(table_type, index)

    run_machine(Machine, 3, len(STEPS))
