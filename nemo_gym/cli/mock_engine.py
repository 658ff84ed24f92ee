"""`ng_mock_engine`: an inference engine without a model, for tests, CI and capacity measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, unusable_address
from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine.options import EngineOptions

if TYPE_CHECKING:
    from nemo_gym.mock_engine.server import MockEngine


class MockEngineKeys(EngineOptions):
    """The options of the engine, and its address."""

    host: str = Field("127.0.0.1", description="The address to listen on; by default loopback.")
    port: int = Field(0, ge=0, le=65_535, description="The port; 0 for any free port, which is printed.")
    as_json: bool = Field(
        False, alias="json", description="Print `base_url`, `model` and `pid` as JSON when ready."
    )


COMMAND = Command(
    name="ng_mock_engine",
    summary="Serve a scripted model over vLLM's HTTP interface, with configurable latency and faults.",
    example="ng_mock_engine +port=8000 +policy=tools +latency_s=uniform:1:3 '+faults=[{do: http_503, every: 20}]'",
    keys=MockEngineKeys,
    exit_codes={
        ExitCode.COMPLETE: "stopped by SIGTERM or SIGINT",
        ExitCode.FATAL: "failed",
        ExitCode.BAD_INPUT: "wrong usage, or an unusable file or address",
    },
)


def serve_engine(keys: MockEngineKeys) -> int:
    from nemo_gym.mock_engine.serving import ready_line, serve

    def announce(engine: MockEngine) -> None:
        line = ready_line(engine) if keys.as_json else f"mock engine {keys.model!r} at {engine.base_url}"
        print(line, flush=True)

    try:
        keys = keys.model_copy(update={"gold": _find_gold(keys.gold)})
        serve(keys, announce, host=keys.host, port=keys.port)
    except OSError as error:
        raise unusable_address(keys.host, keys.port, error) from error
    return ExitCode.COMPLETE


def _find_gold(given: Path | None) -> Path | None:
    """Return the script of an environment's name, or the path itself. Raises `ConfigError` without a script."""
    if given is None or given.suffix:
        return given
    from nemo_gym.authoring.gold import GOLD_FILE, find_gold
    from nemo_gym.authoring.implementations import find_implementation

    implementation = find_implementation(str(given), Path.cwd())
    script = find_gold(implementation)
    if script is None:
        raise ConfigError(
            f"{implementation.entrypoint} has no gold ({GOLD_FILE})",
            code="no_gold",
            remedy="Name another environment, or the path of a script.",
            param="gold",
        )
    return script


main = COMMAND.entry_point(serve_engine)


if __name__ == "__main__":
    main()
