from __future__ import annotations

import os
import subprocess
import sys
import time

from nemo_gym.audit.surroundings import DAYS_AHEAD, change_surroundings, find_faketime, note_clock

ASK = "import time, os; print(time.time(), time.tzname[0], os.environ['PYTHONHASHSEED'])"


def test_a_process_that_starts_has_change_surroundings_and_this_one_keeps_its_own() -> None:
    before = dict(os.environ)
    with change_surroundings():
        answer = subprocess.run(
            [sys.executable, "-c", ASK], check=True, capture_output=True, text=True
        ).stdout
    now, zone, seed = answer.split()
    assert (zone, seed) == ("+14", "4242")
    days = round((float(now) - time.time()) / 86_400)
    assert days == (0 if find_faketime() is None else DAYS_AHEAD)
    assert ("not moved" in note_clock()) == (find_faketime() is None)
    assert dict(os.environ) == before
