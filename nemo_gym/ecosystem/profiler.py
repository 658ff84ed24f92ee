"""A profile of this process's Python functions, written as a file for `pstats` and as a table."""

from __future__ import annotations

import cProfile
import io
import pstats
from pathlib import Path

from pydantic import BaseModel, PrivateAttr

_ROWS = 200


class Profiler(BaseModel):
    """Measures the time of functions between `start` and `stop`, for the thread that calls them."""

    name: str
    base_profile_dir: Path
    required_str: str | None = None
    """The table has only functions whose file or name contains it; by default all."""
    _profile: cProfile.Profile = PrivateAttr(default_factory=cProfile.Profile)

    def start(self) -> None:
        self._profile.enable()

    def stop(self) -> None:
        self._profile.disable()
        self.dump()

    def dump(self) -> None:
        """Write `<name>.prof` and `<name>.txt`, the functions by cumulated seconds, to the folder."""
        self.base_profile_dir.mkdir(parents=True, exist_ok=True)
        self._profile.dump_stats(self.base_profile_dir / f"{self.name}.prof")
        table = io.StringIO()
        stats = pstats.Stats(self._profile, stream=table).sort_stats("cumulative")
        stats.print_stats(*([self.required_str] if self.required_str else []), _ROWS)
        (self.base_profile_dir / f"{self.name}.txt").write_text(table.getvalue(), encoding="utf-8")
