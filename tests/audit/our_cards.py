"""The cards of this repository's environments: `python -m tests.audit.our_cards [NAME]...`, or `make audit`.

Every environment with a `verify` is audited, with generated tasks where there are some, and with its example rows
otherwise. A wrong verdict fails the command, because the cards (`audit.json` in their folders) have none. It takes a
sample of the tasks; `WHOLE=1` takes all of them, and `KEEP=1` also writes the cards anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nemo_gym import PARENT_DIR
from nemo_gym.audit.claims import CARD
from tests.audit.generated_rows import MADE, PREPARED, make_rows, write_rows

ENVIRONMENTS = PARENT_DIR / "resources_servers"
GENERATED = (*MADE, *PREPARED)
EXAMPLES_ONLY = ("equivalence_llm_judge", "rubric_judge")
"""Their verdicts are those of a judge model, so their cards show only that a judge out of reach is a failure."""
NOT_AUDITED = {
    "blackjack": "it scores steps, and has no `verify` of an answer",
    "foreign": "each task comes with the verifier of its own library",
    "gymnasium": "it scores steps",
    "text_gymnasium": "it scores steps",
    "task_folders": "each folder brings its own verifier, and rows come from folders",
}
UNCLAIMED = {
    "calendar": "no near miss of a calendar is made",
    "code_gen": "a hang and endless output are tried at two tasks each",
    "code_repair": "too few of its tasks have bugs in two files",
    "equivalence_llm_judge": "its verdicts are those of a judge",
    "example_multi_reward": "it is an example",
    "example_session_state_mgmt": "it is an example",
    "example_single_tool_call": "it is an example: any call and any words are rewarded, as an adversary's scripts show",
    "instruction_following": "no near miss of a rule is made",
    "rubric_judge": "its verdicts are those of a judge",
}
"""Why an environment claims nothing, though its card has no error."""
SAMPLE = 10
"""Every how manyth task a sample has."""


def find_card(name: str) -> Path:
    return ENVIRONMENTS / name / CARD


def audit(name: str, folder: Path) -> int:
    """Audit one environment, and return the exit code. The card is in `folder`."""
    keeps = "KEEP" in os.environ
    gym = str(Path(sys.executable).with_name("gym"))
    command = [gym, "audit", name, "-o", str(folder / name), "--fail-above", "0"]
    if name in GENERATED:
        made = make_rows(name, folder)
        rows = folder / f"{name}.jsonl"
        write_rows(made if keeps or "WHOLE" in os.environ else made[::SAMPLE], rows)
        command += ["-i", str(rows)]
    done = subprocess.run(
        [*command, "+placement=inline", "+restart=false", "++head_server.port=0"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    print(f"{name}: {(done.stdout.splitlines() or ['-'])[0]}", flush=True)  # noqa: T201
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)  # noqa: T201
    elif keeps:
        shutil.copy(folder / name / "card.json", find_card(name))
    return done.returncode


def main() -> int:
    os.chdir(PARENT_DIR)
    chosen = sys.argv[1:] or sorted([*GENERATED, *EXAMPLES_ONLY])
    with tempfile.TemporaryDirectory() as folder:
        codes = [audit(name, Path(folder)) for name in chosen]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
