"""User ids of sandboxes: each is held by one live sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.isolation import users
from nemo_gym.isolation.users import claim_user, remove_dead_users
from tests.waiting import wait_until_gone

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="programs have users of their own only as root")


def test_live_sandboxes_have_different_users() -> None:
    claims = [claim_user() for _ in range(20)]
    assert len({claim.uid for claim in claims}) == 20
    assert min(claim.uid for claim in claims) > 1000
    assert all(claim.uid % 2 == 0 for claim in claims)
    for claim in claims:
        claim.release()


def test_a_user_is_free_again_after_its_release(monkeypatch: pytest.MonkeyPatch) -> None:
    first = claim_user()
    monkeypatch.setattr(users, "_read_user_range", lambda: (first.uid, first.uid + 2))
    with pytest.raises(VerifierError, match="free for a sandbox"):
        claim_user()
    first.release()
    second = claim_user()
    assert second.uid == first.uid
    second.release()


KILLED = """
import os, signal, subprocess
from nemo_gym.isolation.users import claim_user
user = claim_user(leaves_files=True)
left = subprocess.Popen(["sleep", "1000"], user=user.uid, group=user.uid, start_new_session=True, stdout=-3, stderr=-3)
subprocess.run(["touch", f"/tmp/left_by_{user.uid}"], user=user.uid, group=user.uid, check=True)
print(user.uid, left.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_gym_removes_what_users_of_a_killed_one_left() -> None:
    live = claim_user(leaves_files=True)
    kept = Path(f"/tmp/left_by_{live.uid}")
    kept.touch()
    os.chown(kept, live.uid, live.uid)
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    uid, pid = map(int, done.stdout.split())
    assert Path(f"/tmp/left_by_{uid}").exists(), done.stderr
    remove_dead_users()
    wait_until_gone(pid)
    assert not Path(f"/tmp/left_by_{uid}").exists()
    assert kept.exists(), "its user is alive"
    live.release()
    live.release()
    assert not kept.exists()


def test_without_a_place_for_claims_the_error_names_the_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(users, "_PLACES", (tmp_path / "file" / "gym",))
    users._find_claims_folder.cache_clear()
    with pytest.raises(VerifierError, match="file/gym"):
        claim_user()
    monkeypatch.setattr(users, "_PLACES", (tmp_path / "file" / "gym", tmp_path / "run"))
    claim_user().release()
    assert list((tmp_path / "run" / "users").iterdir()) == []
    users._find_claims_folder.cache_clear()
