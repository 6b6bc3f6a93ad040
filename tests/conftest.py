"""Settings for every test: hypothesis without deadlines, the same examples in every run."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "tdsim",
    deadline=None,  # two busy cores: a slow example is no failure
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tdsim")
