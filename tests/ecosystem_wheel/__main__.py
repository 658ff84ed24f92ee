"""`make test-ecosystem`: the ecosystem's wheel beside our `nemo_gym`.

Variables: `STAGE` (imports, configurations, tests, agents, runs, rewards; all by default), `FOLDERS` (words; only the
tests of folders and the agents that contain one, or the runs and rewards of these environments), `OPTIONS=0` (load
configurations without the options of servers: a minute), `KEEP=1` (write the figures and the page),
`ECOSYSTEM_PYTHON`, `NEMO_GYM_ECOSYSTEM_CACHE`, `PROCESSES`.
Exit code 1 if a stage has fewer green items than the figures in the repository.
"""

from __future__ import annotations

import os
import sys

from tests.ecosystem_wheel import figures, packages, rewards, runs, stages, wheel


def main() -> int:
    stage = os.environ.get("STAGE") or "all"
    if stage not in (*figures.TITLES, "all"):
        sys.exit(f"STAGE is {stage!r}; it must be one of {', '.join(figures.TITLES)}, or empty for all")
    words = [word for word in (os.environ.get("FOLDERS") or "").split(",") if word]
    wheel.lay_out()
    workplace = stages.Workplace(packages.python(), packages.left_out())
    samples = {**stages.SAMPLED, "runs": runs.runs, "rewards": rewards.rewards}
    before, now = figures.kept(), {}
    for name in figures.TITLES if stage == "all" else [stage]:
        sampled = samples.get(name)
        findings = sampled(workplace, words) if sampled else stages.STAGES[name](workplace)
        now[name] = figures.figures_of(name, findings)
        print(figures.text_of(name, now[name]), flush=True)
    if words:
        return 0  # a sample has no figures to compare
    problems = figures.fallen(before, now)
    print("\n".join(problems) or "as many as the kept figures, or more")
    if os.environ.get("KEEP"):
        figures.keep({**before, **now})
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
