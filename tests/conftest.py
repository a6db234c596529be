"""Settings that every test shares."""

import os

from hypothesis import HealthCheck, settings

# Wall-clock deadlines fail on a busy machine and say nothing about the code.
settings.register_profile(
    "lakebed", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("soak", settings.get_profile("lakebed"), max_examples=2_000)
settings.load_profile(os.environ.get("LAKEBED_HYPOTHESIS", "lakebed"))
