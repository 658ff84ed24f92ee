"""Refuses to write to a file that is also read, and to read one twice, whatever name it is given by."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.compression import build_journal_path


def refuse_inputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Raise `ConfigError` if one of `outputs` is one of `inputs`.

    The same file is found by any path, through symbolic and hard links; a compressed file and its journal are one.
    """
    written = {_identify(path): path for output in outputs for path in (output, build_journal_path(output))}
    for file in inputs:
        for path in (file, build_journal_path(file)):
            output = written.get(_identify(path))
            if output is not None:
                also = "" if output == path else f", which is the same file as {path}"
                raise ConfigError(
                    f"the output would overwrite its input: {output}{also}",
                    code="output_is_input",
                    remedy="Choose another output.",
                )


def refuse_repeats(inputs: Iterable[Path]) -> None:
    """Raise `ConfigError` if a file is named twice, also through a link."""
    seen: dict[object, Path] = {}
    for path in inputs:
        identity = _identify(path)
        if (first := seen.get(identity)) is not None:
            also = "" if first == path else f", also as {first}"
            raise ConfigError(
                f"{path} is named twice{also}", code="duplicate_input", remedy="Name each file once."
            )
        seen[identity] = path


def _identify(path: Path) -> object:
    """Return the device and inode of an existing file, else its absolute path."""
    try:
        status = path.stat()
    except OSError:
        return path.resolve()
    return status.st_dev, status.st_ino
