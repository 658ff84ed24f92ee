"""One attempt at a task folder, in real sandboxes of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider
from nemo_gym.sources.task_folders.trial import Trial
from tests.sandbox.rootless_images import host_provider, needs_rootless
from tests.sources.task_folders.task_maker import OFFLINE, load_trial, make_steps, make_task

pytestmark = needs_rootless
SEPARATE = f'artifacts = ["/tmp/answer", "/tmp/folder"]\n{OFFLINE}[verifier]\nenvironment_mode = "separate"\n'


@pytest.fixture(scope="module")
def provider() -> Iterator[RootlessProvider]:
    with host_provider() as made:
        yield made


async def play(trial: Trial, *commands: str | None) -> dict[str, float]:
    """Play each step by a command, or by the task's solution for None, and return the rewards."""
    try:
        await trial.start()
        for command in commands:
            if command is None:
                await trial.play_solution()
            else:
                await trial.run_command(command, 60)
            await trial.finish_step()
            if not await trial.begin_next_step():
                break
        return trial.combine()
    finally:
        await trial.close()


@pytest.mark.parametrize(("command", "reward"), [(None, 1.0), ("true", 0.0), ("echo 0.5 > /tmp/answer", 0.5)])
async def test_the_solution_nothing_and_a_wrong_solution(
    command: str | None, reward: float, provider: RootlessProvider, tmp_path: Path
) -> None:
    assert await play(load_trial(make_task(tmp_path / "task"), provider), command) == {"reward": reward}


async def test_an_agent_cannot_write_its_own_reward(provider: RootlessProvider, tmp_path: Path) -> None:
    cheat = "echo 1 > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json"
    assert await play(load_trial(make_task(tmp_path / "task"), provider), cheat) == {"reward": 0.0}


@pytest.mark.parametrize(
    ("test", "code"),
    [
        ("true", "no_reward_file"),
        ("touch /logs/verifier/reward.txt", "empty_reward_file"),
        ("echo NaN > /logs/verifier/reward.txt", "bad_reward"),
        ('echo \'{"reward": "1"}\' > /logs/verifier/reward.json', "bad_reward"),
        ("sleep 60", "verifier_timeout"),
    ],
)
async def test_a_verdict_that_is_none_is_a_failure_and_never_zero(
    test: str, code: str, provider: RootlessProvider, tmp_path: Path
) -> None:
    settings = f"{OFFLINE}[verifier]\ntimeout_sec = 2\n"
    folder = make_task(tmp_path / "task", settings)
    (folder / "tests" / "test.sh").write_text(f"#!/bin/bash\n{test}\n")
    with pytest.raises(VerifierError) as raised:
        await play(load_trial(folder, provider), "true")
    assert raised.value.failure.code == code


async def test_the_status_of_a_verifier_is_ignored_and_json_wins(
    provider: RootlessProvider, tmp_path: Path
) -> None:
    folder = make_task(tmp_path / "task")
    test = 'echo 1 > /logs/verifier/reward.txt; echo \'{"a": true, "b": 0.5}\' > /logs/verifier/reward.json; exit 9'
    (folder / "tests" / "test.sh").write_text(f"#!/bin/bash\n{test}\n")
    assert await play(load_trial(folder, provider), "true") == {"a": 1.0, "b": 0.5}


async def test_a_separate_verifier_sees_the_artifacts_alone(
    provider: RootlessProvider, tmp_path: Path
) -> None:
    folder = make_task(tmp_path / "task", SEPARATE)
    test = (
        "#!/bin/bash\n[ -e /tmp/other ] && exit; [ -e /tmp/folder/link ] && exit; [ -e /logs/agent/x ] && exit\n"
        "grep -q in /tmp/folder/a/b && cat /tmp/answer /logs/artifacts/pub > /logs/verifier/reward.txt\n"
    )
    (folder / "tests" / "test.sh").write_text(test)
    command = (
        "printf 1 > /tmp/answer; touch /tmp/other /logs/agent/x; mkdir -p /tmp/folder/a; echo in > /tmp/folder/a/b; "
        "ln -s /etc/passwd /tmp/folder/link; echo 2 > /logs/artifacts/pub"
    )
    assert await play(load_trial(folder, provider), command) == {"reward": 12.0}


async def test_services_of_the_agent_are_there_for_a_shared_verifier(
    provider: RootlessProvider, tmp_path: Path
) -> None:
    folder = make_task(tmp_path / "task")
    (folder / "tests" / "test.sh").write_text(
        "#!/bin/bash\npgrep -f 'sleep 4321' | wc -l > /logs/verifier/reward.txt\n"
    )
    assert await play(load_trial(folder, provider), "(sleep 4321 > /dev/null 2>&1 &)") == {"reward": 1.0}


async def test_variables_reach_their_phase_and_no_other(
    provider: RootlessProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLOWED", "9")
    monkeypatch.setenv("FORBIDDEN", "secret")
    settings = (
        f'{OFFLINE}env = {{ E = "1" }}\n[verifier]\nenv = {{ V = "${{ALLOWED}}", D = "${{FORBIDDEN:-2}}" }}\n'
    )
    folder = make_task(tmp_path / "task", settings)
    (folder / "tests" / "test.sh").write_text(
        '#!/bin/bash\necho "$E$V$D$(grep -c secret /tmp/seen)" > /logs/verifier/reward.txt\n'
    )
    trial = load_trial(folder, provider, frozenset({"ALLOWED"}))
    assert await play(trial, "env > /tmp/seen; grep -q ALLOWED /tmp/seen && echo secret >> /tmp/seen") == {
        "reward": 1920
    }
    trial = load_trial(folder, provider)
    with pytest.raises(VerifierError, match="ALLOWED"):
        await play(trial, "true")


async def test_a_health_check_has_to_succeed(provider: RootlessProvider, tmp_path: Path) -> None:
    check = '[environment.healthcheck]\ncommand = "{}"\ninterval_sec = 0.1\nretries = 2\n'
    folder = make_task(
        tmp_path / "good", OFFLINE + check.format("echo x >> /tmp/n; grep -c x /tmp/n | grep -q 2")
    )
    assert await play(load_trial(folder, provider), None) == {"reward": 1.0}
    with pytest.raises(VerifierError, match="failed 2 times"):
        await play(load_trial(make_task(tmp_path / "bad", OFFLINE + check.format("false")), provider), None)


async def test_hooks_run_before_artifacts_and_their_failure_ends_nothing(
    provider: RootlessProvider, tmp_path: Path
) -> None:
    hooks = (
        '[[verifier.collect]]\ncommand = "echo 1 > /tmp/answer"\n[[verifier.collect]]\ncommand = "exit 3"\n'
    )
    folder = make_task(tmp_path / "task", SEPARATE + hooks)
    assert await play(load_trial(folder, provider), "true") == {"reward": 1.0}


async def test_artifacts_are_kept_for_the_user_where_they_are_wanted(
    provider: RootlessProvider, tmp_path: Path
) -> None:
    settings = 'artifacts = ["/tmp/answer", { source = "/tmp/no", destination = "x" }]\n'
    one = load_trial(make_task(tmp_path / "one", settings + OFFLINE), provider)
    one.artifacts = tmp_path / "kept"
    assert await play(one, "echo 0.5 > /tmp/answer; echo log > /logs/artifacts/out") == {"reward": 0.5}
    assert (tmp_path / "kept" / "tmp" / "answer").read_text() == "0.5\n"
    assert (tmp_path / "kept" / "logs" / "artifacts" / "out").read_text() == "log\n"
    manifest = json.loads((tmp_path / "kept" / "manifest.json").read_text())
    assert manifest == {"/logs/artifacts": "ok", "/tmp/answer": "ok", "/tmp/no": "failed"}
    two = load_trial(make_steps(tmp_path / "two", "", {"a": {}, "b": {}}), provider)
    two.artifacts = tmp_path / "steps"
    await play(two, "echo a > /logs/artifacts/out", "echo b > /logs/artifacts/out")
    kept = tmp_path / "steps"
    assert [(kept / step / "logs/artifacts/out").read_text() for step in "ab"] == ["a\n", "b\n"]


async def test_steps_share_a_sandbox_and_have_their_mean(provider: RootlessProvider, tmp_path: Path) -> None:
    steps = {
        "one": {"workdir/given": "1", "solution/solve.sh": "#!/bin/bash\ncp given answer\n"},
        "two": {
            "workdir/setup.sh": "ls /tests /logs/verifier > /tmp/seen",
            "tests/test.sh": "#!/bin/bash\n[ -s /tmp/seen ] || grep -c 1 /tmp/answer > /logs/verifier/reward.txt\n",
            "solution/solve.sh": "#!/bin/bash\ntrue\n",
        },
    }
    folder = make_steps(tmp_path / "task", "", steps)
    (folder / "steps" / "two" / "workdir" / "setup.sh").write_text(
        "cat /tests/* /logs/verifier/* > /tmp/seen 2>/dev/null; true"
    )
    assert await play(load_trial(folder, provider), None, None) == {"reward": 1.0}


async def test_a_step_below_its_least_reward_stops_the_task(
    provider: RootlessProvider, tmp_path: Path
) -> None:
    folder = make_steps(tmp_path / "task", "", {"one": {"settings": "min_reward = 0.5"}, "two": {}})
    trial = load_trial(folder, provider)
    assert await play(trial, "echo 0.25 > /tmp/answer", "echo 1 > /tmp/answer") == {"reward": 0.25}
    assert [verdict.step for verdict in trial.verdicts] == ["one"]


async def test_a_failed_setup_stops_the_task_with_the_rewards_so_far(
    provider: RootlessProvider, tmp_path: Path
) -> None:
    folder = make_steps(tmp_path / "task", "", {"one": {}, "two": {"workdir/setup.sh": "exit 4"}})
    trial = load_trial(folder, provider)
    assert await play(trial, "echo 1 > /tmp/answer", "true") == {"reward": 1.0}
    assert trial.verdicts[1].failure is not None
    assert trial.verdicts[1].failure.failure.code == "setup_failed"


async def test_the_last_step_counts_with_the_strategy_final(
    provider: RootlessProvider, tmp_path: Path
) -> None:
    strategy = 'multi_step_reward_strategy = "final"\n'
    folder = make_steps(tmp_path / "task", "", {"one": {}, "two": {}})
    (folder / "task.toml").write_text(strategy + (folder / "task.toml").read_text())
    trial = load_trial(folder, provider)
    assert await play(trial, "echo 1 > /tmp/answer", "echo 0.5 > /tmp/answer") == {"reward": 0.5}


async def test_a_verifier_of_the_dataset_reads_the_data_of_the_task(
    provider: RootlessProvider, tmp_path: Path
) -> None:
    (tmp_path / "dataset.toml").write_text('[dataset]\nname = "all"\n')
    verifier = "def verify(workspace, task_data): return (workspace / 'answer').read_text().strip() == task_data['is']"
    (tmp_path / "verifier.py").write_text(verifier)
    folder = make_task(tmp_path / "task", without=("tests/test.sh",))
    (folder / "task_data.json").write_text('{"is": "right"}')
    for said, reward in (("right", 1.0), ("wrong", 0.0)):
        trial = load_trial(folder, provider)
        assert await play(trial, f"echo {said} > answer") == {"reward": reward}
    assert sorted(trial.task.digest_outer_files()) == ["task_data.json", "verifier.py"]


async def test_an_attempt_goes_on_from_a_snapshot(provider: RootlessProvider, tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    trial = load_trial(folder, provider)
    try:
        await trial.start()
        await trial.run_command("echo 0.5 > /tmp/answer; echo kept > /logs/agent/log", 60)
        assert await trial.snapshot(tmp_path / "taken")
        await trial.run_command("echo 0.25 > /tmp/answer", 60)
    finally:
        await trial.close()
    later = load_trial(folder, provider)
    try:
        await later.start(tmp_path / "taken")
        assert (await later.run_command("cat /logs/agent/log", 60)).stdout == "kept\n"
        await later.finish_step()
        assert later.combine() == {"reward": 0.5}
    finally:
        await later.close()


async def test_a_task_with_steps_has_no_snapshot(provider: RootlessProvider, tmp_path: Path) -> None:
    trial = load_trial(make_steps(tmp_path / "task", "", {"one": {}, "two": {}}), provider)
    try:
        await trial.start()
        assert not await trial.snapshot(tmp_path / "taken")
    finally:
        await trial.close()
