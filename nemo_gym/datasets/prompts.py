"""Files of rows with a filled prompt template. A run fills templates on the fly instead."""

from __future__ import annotations

from pathlib import Path

import orjson

from nemo_gym.inputs.prompts import load_row_template
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.inputs import refuse_inputs
from nemo_gym.rollouts.plan.dataset import locate, read_lines
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, RowFaults, apply_prompt, parse_row


def materialize_prompts(rows: Path, prompt_config: str, output: Path) -> int:
    """Write `rows` with their prompts to `output`, and return their number.

    Raises `ConfigError` if `output` is an input, or with every row that does not match the template. In these cases
    nothing is written.
    """
    refuse_inputs([output], [locate(rows), Path(prompt_config)])
    prompt = load_row_template(prompt_config)
    faults, count = RowFaults(), 0
    with replacing(output) as file:
        for line in read_lines(locate(rows)):
            try:
                filled = apply_prompt(parse_row(line.content), prompt)
            except FaultyRowError as error:
                faults.add(rows, line.number, error)
            else:
                count += 1
                file.write(orjson.dumps(filled) + b"\n")
        faults.refuse(
            "the template does not match the rows",
            "Correct the rows or the template; nothing was written.",
        )
    return count
