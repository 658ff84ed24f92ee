import nemo_gym.metrics
import nemo_gym.metrics.hooks
from nemo_gym import reward_profile

NAMES = {
    "AggregateMetricsMixin",
    "RewardProfiler",
    "add_avg_sample_std_dev",
    "compute_aggregate_metrics",
    "compute_pass_majority_metrics",
    "compute_subset_metrics",
    "highest_k_metrics",
}


def test_every_name_that_environments_import_is_the_one_of_the_metrics() -> None:
    for name in NAMES:
        home = nemo_gym.metrics if hasattr(nemo_gym.metrics, name) else nemo_gym.metrics.hooks
        assert getattr(reward_profile, name) is getattr(home, name)


def test_the_names_of_the_ecosystem_are_there() -> None:
    assert {name for name in vars(reward_profile) if not name.startswith("_")} == NAMES
