"""A tool task of a small rink, to be written to a folder with a verifier that sees much or little."""

from __future__ import annotations

import json
from pathlib import Path

REQUEST = "Please book session S-2 for six children. They need helmets too. Log every rental."
TOOLS = """
from general_agent.tools import DB, Tools, tool
from pydantic import BaseModel


class Session(BaseModel):
    id: str
    title: str
    booked: int = 0


class Rental(BaseModel):
    id: str
    thing: str
    logged: bool = False


class TaskDB(DB):
    sessions: list[Session] = []
    rentals: list[Rental] = []


class TaskTools(Tools):
    db: TaskDB

    @tool
    def list_sessions(self) -> list[dict]:
        return [each.model_dump() for each in self.db.sessions]

    @tool
    def book_session(self, session_id: str, count: int) -> str:
        found = next((each for each in self.db.sessions if each.id == session_id), None)
        if found is None:
            raise ValueError(f"no session {session_id}")
        found.booked = count
        return "booked"

    @tool
    def rent_helmets(self, count: int) -> str:
        self.db.rentals.append(Rental(id=f"R-{len(self.db.rentals) + 1}", thing="helmet"))
        return "rented"

    @tool
    def cancel_session(self, session_id: str) -> str:
        self.db.sessions.remove(next(each for each in self.db.sessions if each.id == session_id))
        return "cancelled"


"""
FAULTLESS = """
def verify(db):
    booked = {each.id: each.booked for each in db.sessions}
    return float(booked == {"S-1": 0, "S-2": 6, "S-3": 0} and len(db.rentals) == 1)
"""
BLIND = """
def verify(db):
    return float(any(each.id == "S-2" and each.booked == 6 for each in db.sessions))
"""
STATE = {"sessions": [{"id": f"S-{number}", "title": f"Evening {number}"} for number in (1, 2, 3)]}
GOLD = [
    ["list_sessions", {}],
    ["book_session", {"session_id": "S-2", "count": 6}],
    ["rent_helmets", {"count": 6}],
]


def write_rink(folder: Path, verify: str = FAULTLESS, *, gold: object = GOLD, request: str = REQUEST) -> Path:
    """Write the task to `folder`, and return it."""
    folder.mkdir(parents=True)
    (folder / "instruction.md").write_text(request)
    (folder / "tools.py").write_text(TOOLS + verify)
    (folder / "db.json").write_text(json.dumps(STATE))
    (folder / "gold.json").write_text(json.dumps(gold))
    (folder / "task.toml").write_text('[metadata]\nname = "rink"\ntier = 1\n')
    return folder
