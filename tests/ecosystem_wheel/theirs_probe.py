"""Load configurations with the wheel's own core. Runs beside the wheel.

Standard input: one JSON object a line, `{"file", "arguments"}`, the arguments of its command line. Standard output: one
JSON object a line, `{"file", "error"}`; the error is null if the configuration is accepted.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_gym.global_config import GlobalConfigDictParser, GlobalConfigDictParserConfig
from tests.ecosystem_wheel.given import set_variables


def error_of(arguments: Sequence[str]) -> str | None:
    """Return the error of a command line: its first line and what was printed; None if there is none."""
    sys.argv = ["configuration", *arguments]
    options: Any = {"dotenv_path": Path("no-such-file.yaml"), "skip_load_from_dotenv": True, "offline": True}
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            GlobalConfigDictParser().parse(GlobalConfigDictParserConfig(**options))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a refusal has many types
        first = str(error).partition("\n")[0]
        return f"{printed.getvalue()}\n{type(error).__name__}: {first}"
    return None


def main() -> None:
    set_variables()
    for line in sys.stdin:
        question = json.loads(line)
        answer = {"file": question["file"], "error": error_of(question["arguments"])}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
