"""`task.toml` as data. `make test-folders` compares thousands of files with the format's own loader."""

from __future__ import annotations

import pytest

from nemo_gym.sources.task_folders.settings import (
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
