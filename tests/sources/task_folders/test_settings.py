"""`task.toml` as data. `make test-folders` compares thousands of files with the format's own loader."""

from __future__ import annotations

import pytest

from nemo_gym.sources.task_folders.settings import (
    Artifact,
    NetworkMode,
    StepSettings,
    VerifierMode,
    list_artifacts,
    parse_settings,
)


def test_an_empty_file_has_the_defaults_of_the_format() -> None:
    settings = parse_settings("")
    assert (settings.schema_version, settings.verifier.timeout_sec, settings.agent.timeout_sec) == (
        "1.4",
        600,
        None,
    )
    assert settings.environment.network_mode is NetworkMode.PUBLIC
    assert settings.find_mode() is VerifierMode.SHARED
    assert [each.source for each in list_artifacts(settings)] == ["/logs/artifacts"]


def test_old_spellings_are_mapped() -> None:
    settings = parse_settings(
        'version = "1.0"\n[environment]\nmemory = "2G"\nstorage = "512M"\nallow_internet = false'
    )
    environment = settings.environment
    assert settings.schema_version == "1.0"
    assert (environment.memory_mb, environment.storage_mb) == (2048, 512)
    assert environment.network_mode is NetworkMode.NO_NETWORK


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[environment]\nmemory = "2X"', "'2X' is not a size"),
        ('[environment]\nmemory = "1G"\nmemory_mb = 5', "memory = '1G' and memory_mb = 5 differ"),
        ('[environment]\nallowed_hosts = ["x.org"]', "allowed_hosts needs network_mode = 'allowlist'"),
        ("[environment]\ncpus = nan", "cpus must be finite"),
        (
            '[verifier]\nenvironment_mode = "shared"\n[verifier.environment]',
            "excludes [verifier.environment]",
        ),
        ('[[steps]]\nname = "a"\n[[steps]]\nname = "A"', "the names of steps must differ"),
        ('[task]\nname = "alone"', "'organization/name'"),
        ('artifacts = ["/a/../b"]', "must not contain '..'"),
        ("[agent]\ntimeout_sec = []", "timeout_sec"),
    ],
)
def test_a_wrong_value_is_named(text: str, named: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_settings(text)
    assert named in str(raised.value)


def test_the_mode_of_a_verifier_follows_from_its_environment_and_the_tasks() -> None:
    separate = parse_settings("[verifier.environment]\n")
    assert separate.find_mode() is VerifierMode.SEPARATE
    assert separate.find_mode(StepSettings(name="a")) is VerifierMode.SEPARATE
    shared = StepSettings.model_validate({"name": "a", "verifier": {"environment_mode": "shared"}})
    assert separate.find_mode(shared) is VerifierMode.SHARED


def test_an_explicit_entry_replaces_the_folder_that_is_always_kept() -> None:
    settings = parse_settings('[[artifacts]]\nsource = "/logs/artifacts/"\nexclude = ["*.o"]')
    assert [(each.source, each.exclude) for each in list_artifacts(settings)] == [
        ("/logs/artifacts/", ["*.o"])
    ]


def test_an_artifact_has_a_place_below_the_folder_of_all() -> None:
    log = Artifact(source="/var/log/x")
    assert str(log.place) == "var/log/x"
    assert str(Artifact(source="/var/log/x", destination="logs").place) == "logs"
    assert log.overlaps(Artifact(source="/var/log"))
    assert not log.overlaps(Artifact(source="/var/log/xy"))


def test_a_step_has_its_own_settings_before_those_of_the_task() -> None:
    settings = parse_settings(
        '[agent]\ntimeout_sec = 5\nuser = "a"\n[verifier]\nuser = 7\ntimeout_sec = 9\nenv = { A = "1", B = "1" }\n'
        '[[steps]]\nname = "one"\n[steps.agent]\nuser = 0\n[steps.verifier]\nenv = { B = "2" }\n'
    )
    assert settings.steps is not None
    (step,) = settings.steps
    assert (settings.find_agent(None).user, settings.find_agent(step).user) == ("a", 0)
    assert settings.find_agent(step).timeout_sec == 5
    verifier = settings.find_verifier(step)
    assert (verifier.user, verifier.timeout_sec, verifier.env) == (7, 600, {"A": "1", "B": "2"})
