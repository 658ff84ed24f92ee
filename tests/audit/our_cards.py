"""The cards of this repository's environments: `python -m tests.audit.our_cards`, or `make audit`.

Every environment with a `verify` is audited with 150 generated tasks where it has a generator, and with its example
rows otherwise. A class of probes with a higher error rate than on the environment's card in `docs/audits` fails the
command. `KEEP=1` writes the cards anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nemo_gym import PARENT_DIR

CARDS = PARENT_DIR / "docs" / "audits"
TASKS = 150
GENERATED = {
    "calendar": (), "efficient_tool_use": (), "example_multi_step": (), "instruction_following": (),
    "reasoning_gym": ("--task", "knights_knaves", "complex_arithmetic", "coin_flip"), "structured_outputs": (),
    "workplace_assistant": (),
}  # fmt: skip
EXAMPLES_ONLY = (
    "code_gen", "equivalence_llm_judge", "example_multi_reward", "example_session_state_mgmt",
    "example_single_tool_call", "math_with_judge", "mcqa", "string_match", "text_to_sql",
)  # fmt: skip
NOT_AUDITED = {
    "blackjack": "it scores steps, and has no `verify` of an answer",
    "code_repair": "its right attempts are patches of files, of which no script is declared",
    "gymnasium": "it scores steps",
    "rubric_judge": "its judge writes grades, so a stub can say nothing of them",
    "text_gymnasium": "it scores steps",
    "task_folders": "each folder brings its own verifier, and rows come from folders",
}


def generate_rows(name: str, folder: Path) -> list[str]:
    """Return the option that names generated rows; none for an environment without a generator."""
    if name not in GENERATED:
        return []
    rows = folder / f"{name}.jsonl"
    size = str(TASKS // 3 if name == "reasoning_gym" else TASKS)
    options = [*GENERATED[name], "--size", size, "--seed", "0", "--output", str(rows)]
    script = str(PARENT_DIR / "resources_servers" / name / "prepare.py")
    subprocess.run([sys.executable, script, *options], check=True, stdout=subprocess.DEVNULL)
    return ["-i", str(rows)]


def audit(name: str, folder: Path) -> int:
    """Audit one environment, and return the exit code. The card is in `folder`."""
    command = [str(Path(sys.executable).with_name("gym")), "audit", name, "-o", str(folder / name)]
    card = CARDS / f"{name}.json"
    if card.exists() and "KEEP" not in os.environ:
        command += ["--baseline", str(card)]
    done = subprocess.run(
        [*command, *generate_rows(name, folder), "+placement=inline", "+restart=false"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    print(f"{name}: {(done.stdout.splitlines() or ['-'])[0]}", flush=True)  # noqa: T201
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)  # noqa: T201
    elif "KEEP" in os.environ:
        CARDS.mkdir(exist_ok=True)
        shutil.copy(folder / name / "card.json", card)
    return done.returncode


def main() -> int:
    os.chdir(PARENT_DIR)
    chosen = sys.argv[1:] or sorted([*GENERATED, *EXAMPLES_ONLY])
    with tempfile.TemporaryDirectory() as folder:
        codes = [audit(name, Path(folder)) for name in chosen]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
