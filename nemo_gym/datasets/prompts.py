"""Files of rows with a filled prompt template. A run fills templates on the fly instead."""

from __future__ import annotations

from pathlib import Path

import orjson

from nemo_gym.config.prompts import apply_prompt_to_row, load_prompt_config
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.inputs import refuse_inputs
from nemo_gym.rollouts.plan.dataset import locate, read_lines
from nemo_gym.rollouts.plan.inspection import SHOWN_FAULTS, RowFault
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, FieldFault, parse_row


def materialize_prompts(rows: Path, prompt_config: str, output: Path) -> int:
    """Write `rows` with their prompts to `output`, and return their number.

    Raises `ConfigError` if `output` is an input, or with every row that does not match the template. In these cases
    nothing is written.
    """
    refuse_inputs([output], [locate(rows), Path(prompt_config)])
    prompt = load_prompt_config(prompt_config)
    faults: list[RowFault] = []
    count = 0
    with replacing(output) as file:
        for line in read_lines(locate(rows)):
            try:
                filled = apply_prompt_to_row(parse_row(line.content), prompt)
            except FaultyRowError as error:
                faults += [RowFault(rows, line.number, fault) for fault in error.faults]
            except ConfigError as error:
                faults.append(
                    RowFault(rows, line.number, FieldFault(error.failure.param or "", error.failure.message))
                )
            else:
                count += 1
                file.write(orjson.dumps(filled) + b"\n")
        if faults:
            raise _refusal(faults)
    return count


def _refusal(faults: list[RowFault]) -> ConfigError:
    shown = "\n".join(f"  {fault}" for fault in faults[:SHOWN_FAULTS])
    rest = f"\n  … and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
    return ConfigError(
        f"the template does not match the rows:\n{shown}{rest}\n",
        code="malformed_rows",
        remedy="Correct the rows or the template; nothing was written.",
    )
