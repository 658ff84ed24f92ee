"""`ng_view`: show rollouts in a browser."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, unusable_address


class ViewKeys(Keys):
    places: list[str] = Field(
        default=["results"], min_length=1, description="Files of scored rows, and folders that hold them."
    )
    tokenizer: str | None = Field(
        None, description="A model's folder or its `tokenizer.json`, for the text of tokens."
    )
    host: str = Field("127.0.0.1", description="The address to listen on; by default loopback.")
    port: int = Field(0, ge=0, le=65_535, description="The port; 0 for any free port, which is printed.")
    as_json: bool = Field(False, alias="json", description="Print the address as JSON.")


COMMAND = Command(
    name="ng_view",
    summary="Show rollouts in a browser: runs, rollouts, tokens, failures and comparisons.",
    example="ng_view +places=[results]",
    keys=ViewKeys,
    exit_codes={
        ExitCode.COMPLETE: "stopped by SIGTERM or SIGINT",
        ExitCode.FATAL: "failed",
        ExitCode.BAD_INPUT: "wrong usage, no run there, or an unusable address",
    },
)


def show_rollouts(keys: ViewKeys) -> int:
    import uvloop

    from nemo_gym.tokens.vocabulary import Vocabulary
    from nemo_gym.viewer.runs import find_runs
    from nemo_gym.viewer.server import Viewer
    from nemo_gym.viewer.serving import serve

    runs = find_runs([Path(place) for place in keys.places])
    vocabulary = Vocabulary.read(Path(keys.tokenizer)) if keys.tokenizer else None

    def announce(address: str) -> None:
        line = json.dumps({"url": address}) if keys.as_json else f"{len(runs)} runs at {address}"
        print(line, flush=True)

    try:
        uvloop.run(serve(Viewer(runs, vocabulary), announce, host=keys.host, port=keys.port))
    except OSError as error:
        raise unusable_address(keys.host, keys.port, error) from error
    return ExitCode.COMPLETE


main = COMMAND.entry_point(show_rollouts)


if __name__ == "__main__":
    main()
