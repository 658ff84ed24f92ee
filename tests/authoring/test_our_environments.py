"""Every environment of this repository is complete: it has all parts that the tutorial describes.

`tests/e2e/test_every_environment.py` plays their example tasks and their gold.
"""

from __future__ import annotations

import pytest

from nemo_gym.authoring.catalog import read_entry
from nemo_gym.authoring.implementations import find_implementation
from nemo_gym.datasets.preparation import Preparation, SourceFile
from nemo_gym.rollouts.plan.dataset import DatasetFile
from tests.our_environments import OUR_ENVIRONMENTS, OurEnvironment

EVERY = pytest.mark.parametrize("environment", OUR_ENVIRONMENTS, ids=lambda environment: environment.name)


@EVERY
def test_its_configuration_has_a_description_and_an_agent(environment: OurEnvironment) -> None:
    implementation = find_implementation(f"resources_servers/{environment.name}", environment.folder)
    entry = read_entry(implementation)
    assert entry.domain
    assert entry.description
    assert entry.verification, "one of the ways of docs/verification.md"
    assert entry.to_json()["has_tests"]
    assert environment.agents(), "an agent that declares the example tasks"


@EVERY
def test_it_has_five_example_tasks_in_order_and_gold_for_each(environment: OurEnvironment) -> None:
    tasks = environment.examples()
    assert len(tasks) >= 5
    assert len(environment.gold()) >= len(tasks)
    file = DatasetFile(environment.folder / "data" / "example.jsonl", 1, environment.agents()[0])
    report = Preparation([SourceFile("example", environment.name, file)]).inspect()
    report.refuse_faults()
    assert report.duplicates == []


@EVERY
def test_its_readme_defines_the_reward_and_the_origin_of_rows(environment: OurEnvironment) -> None:
    readme = (environment.folder / "README.md").read_text(encoding="utf-8")
    assert readme.startswith(f"# {environment.name}\n")
    assert "**Reward**" in readme
    assert ("prepare.py" in readme) == (environment.folder / "prepare.py").is_file()
