"""`make test-ecosystem`: the ecosystem's wheel beside our `nemo_gym`.

Variables: `STAGE` (imports, configurations, refusals, tests, agents, runs, rewards, audits; all by default),
`FOLDERS` (words; only the tests of folders, of any role, and the agents that contain one, or the runs, rewards and
audits of these environments), `VERSION` (0.5.1, with `STAGE=tests`; its folders run with the packages of the newest
version), `OPTIONS=0` (load configurations without the options of servers: a minute), `KEEP=1` (write the figures and
the page), `ECOSYSTEM_PYTHON`, `NEMO_GYM_ECOSYSTEM_CACHE`, `PROCESSES`.
Exit code 1 if a stage has fewer green items than the figures in the repository.
"""

from __future__ import annotations

import os
import sys

from tests.ecosystem_wheel import audits, figures, packages, rewards, runs, stages, wheel


def main() -> int:
    stage = os.environ.get("STAGE") or "all"
    samples = {**stages.SAMPLED, "runs": runs.runs, "rewards": rewards.rewards, "audits": audits.audits}
    names = (*stages.STAGES, *samples)
    if stage not in (*names, "all"):
        sys.exit(f"STAGE is {stage!r}; it must be one of {', '.join(names)}, or empty for all")
    if wheel.VERSION not in (wheel.NEWEST, *(wheel.OLDER if stage == "tests" else ())):
        sys.exit(f"VERSION is {wheel.VERSION!r}; it may be {', '.join(wheel.OLDER)} with STAGE=tests")
    words = [word for word in (os.environ.get("FOLDERS") or "").split(",") if word]
    wheel.lay_out()
    workplace = stages.Workplace(packages.python(), packages.left_out())
    before, now = figures.kept(), {}
    for name in names if stage == "all" else [stage]:
        sampled = samples.get(name)
        findings = sampled(workplace, words) if sampled else stages.STAGES[name](workplace)
        title = name if wheel.VERSION == wheel.NEWEST else f"{name} {wheel.VERSION}"
        now[title] = figures.figures_of(name, findings)
        print(figures.text_of(title, now[title]), flush=True)
    if words:
        return 0  # a sample has no figures to compare
    problems = figures.fallen(before, now)
    print("\n".join(problems) or "as many as the kept figures, or more")
    if os.environ.get("KEEP"):
        figures.keep({**before, **now})
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
