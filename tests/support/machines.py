"""Run state machines with a share of the profile's examples."""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

SLOW_CHECKS = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


def history_settings(share: int, **more: int) -> settings:
    """Return settings for `share` percent of the profile's examples, each a history of a table.

    An example takes tenths of a second, so that shortening a failing one would outlast the test's
    timeout and hide the failure. It is shown as it was found, and found again at the next run;
    LAKEBED_SHRINK=1 (with `--timeout 0`) shortens it.
    """
    profile = settings()
    phases = set(profile.phases) - {Phase.explain}
    if os.environ.get("LAKEBED_SHRINK") != "1":
        phases -= {Phase.shrink}
    return settings(
        max_examples=max(1, profile.max_examples * share // 100),
        deadline=None,
        phases=tuple(phase for phase in Phase if phase in phases),
        suppress_health_check=SLOW_CHECKS,
        **more,
    )


def run_machine(machine: Callable[[], RuleBasedStateMachine], share: int, steps: int) -> None:
    """Run `share` percent of the profile's examples, with at most `steps` steps each."""
    run_state_machine_as_test(machine, settings=history_settings(share, stateful_step_count=steps))
