"""`ng_forget`: delete the records of attempts that a run has kept."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class ForgetKeys(Keys):
    input_jsonl_fpath: str = Field(description="The file of scored rows of a durable run.")
    as_json: bool = Field(False, alias="json", description="Print JSON.")


COMMAND = Command(
    name="ng_forget",
    summary="Delete the records of attempts that a run has kept; rows and failures stay.",
    example="ng_forget +input_jsonl_fpath=results/rollouts.jsonl",
    keys=ForgetKeys,
)


def forget_attempts(keys: ForgetKeys) -> int:
    import json

    from nemo_gym.failures import ConfigError
    from nemo_gym.rollouts.output.attempt_records import delete_all
    from nemo_gym.rollouts.output.files import RunFiles
    from nemo_gym.rollouts.output.journal import refuse_running
    from nemo_gym.tables import write_count

    files = RunFiles.from_output(Path(keys.input_jsonl_fpath))
    if not (files.attempts.exists() or files.manifest.exists()):
        raise ConfigError(
            f"there is no run at {files.rows}", code="no_run", remedy="Name a run's file of scored rows."
        )
    refuse_running(files)
    deleted = delete_all(files.attempts)
    if keys.as_json:
        print(json.dumps(deleted._asdict()))
    else:
        attempts = write_count(deleted.attempts, "attempt", "attempts")
        print(f"deleted the records of {attempts} ({deleted.bytes:,} bytes)")
    return ExitCode.COMPLETE


main = COMMAND.entry_point(forget_attempts)
