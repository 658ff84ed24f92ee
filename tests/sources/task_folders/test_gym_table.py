"""Settings of tasks as the table `[gym]` of their dataset changes them."""

from __future__ import annotations

import pytest

from nemo_gym.sources.task_folders.gym_table import GymTable
from nemo_gym.sources.task_folders.settings import NetworkMode, parse_settings

TASK = parse_settings(
    """
[agent]
timeout_sec = 10
[verifier]
timeout_sec = 20
[verifier.environment]
cpus = 2
[environment]
allow_internet = false
cpus = 0.5
memory_mb = 100
env = { A = "1", B = "2" }
[[steps]]
name = "one"
agent = { timeout_sec = 30 }
[[steps]]
name = "two"
"""
)


def test_a_table_without_settings_changes_nothing() -> None:
    table = GymTable(license="MIT", allowed_agents=["x"])
    assert table.digest("task") is None
    assert table.adjust("task", TASK) is TASK


def test_defaults_multiply_every_limit_that_is_stated() -> None:
    table = GymTable.model_validate({"defaults": {"timeout_multiplier": 1.5, "resource_multiplier": 2.5}})
    found = table.adjust("task", TASK)
    assert (found.agent.timeout_sec, found.verifier.timeout_sec) == (15, 30)
    assert [step.agent.timeout_sec for step in found.steps or ()] == [45, None]
    assert [step.verifier.timeout_sec for step in found.steps or ()] == [900, 900]
    environment, separate = found.environment, found.verifier.environment
    assert (environment.cpus, environment.memory_mb, environment.storage_mb) == (2, 250, None)
    assert separate is not None
    assert separate.cpus == 5
    assert environment.network_mode is NetworkMode.NO_NETWORK


def test_fields_of_a_task_are_replaced_before_they_are_multiplied_and_variables_added() -> None:
    changes = {"memory_mb": 1024, "env": {"B": "3", "C": "4"}, "network_mode": "public"}
    table = GymTable.model_validate(
        {"tasks": {"task": {"environment": changes}}, "defaults": {"resource_multiplier": 2}}
    )
    environment = table.adjust("task", TASK).environment
    assert environment.memory_mb == 2048
    assert environment.env == {"A": "1", "B": "3", "C": "4"}
    assert environment.network_mode is NetworkMode.PUBLIC
    assert table.adjust("other", TASK).environment.memory_mb == 200
    assert table.digest("task") != table.digest("other")


@pytest.mark.parametrize(
    "changes", [{"memory": "1G"}, {"allow_internet": True}, {"cpus": "many"}, {"env": "x"}, {"os": "beos"}]
)
def test_a_wrong_field_is_an_error(changes: dict[str, object]) -> None:
    table = GymTable.model_validate({"tasks": {"task": {"environment": changes}}})
    with pytest.raises(ValueError, match=next(iter(changes))):
        table.adjust("task", TASK)
