"""Repositories that attack their judge: none of them gets a reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.testing import InProcessGym, read_rows
from resources_servers.code_repair.app import CodeRepairResourcesServer
from resources_servers.code_repair.bugs import files_of

ROW = read_rows(Path(__file__).parents[1] / "data" / "example.jsonl")[2]
SOURCE = ROW["verifier_metadata"]["source_files"]
MONEY = "ledger/money.py"
ALWAYS_EQUAL = """
class Equal:
    def __eq__(self, other): return True
    def __hash__(self): return 0
def parse_amount(*_): return Equal()
format_amount = split_evenly = parse_amount
"""
PASSING_TESTS = "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n"

FILES_BESIDE: dict[str, dict[str, str]] = {
    "conftest.py": {"conftest.py": "import os; os._exit(0)"},
    "sitecustomize.py": {
        "sitecustomize.py": "import os; os._exit(0)",
        "usercustomize.py": "import os; os._exit(0)",
    },
    "a .pth file": {"x.pth": "import os; os._exit(0)"},
    "setup.cfg": {
        "setup.cfg": "[tool:pytest]\naddopts = --collect-only",
        "pytest.ini": "[pytest]\ntestpaths = none",
    },
    "pyproject.toml": {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--co'"},
    "the visible tests": {
        "tests/test_ledger.py": PASSING_TESTS,
        "tests/__init__.py": "import os; os._exit(0)",
    },
    "a module of the standard library": {
        "json.py": "import os; os._exit(0)",
        "importlib.py": "",
        "marshal.py": "",
    },
    "a package's first file": {"ledger/__init__.py": "import os; os._exit(0)"},
    "compiled code": {"ledger/__pycache__/money.cpython-311.pyc": "\x00", "ledger/money.so": "\x7fELF"},
    "a module that shadows": {"ledger/money/__init__.py": "def parse_amount(text): return 0"},
    "a path out of the repository": {"../ledger/money.py": "", "/ledger/money.py": "", "ledger/../x": ""},
    "the task": {"verifier_metadata": "{}", "folder_files": "{}"},
}
"""Files that are not the allowed ones: they must not even be loaded."""

SOURCES: dict[str, str] = {
    "an early exit": "import os; os._exit(0)",
    "a clean exit": "raise SystemExit(0)",
    "values that equal everything": ALWAYS_EQUAL,
    "a patched comparison": "import unittest, operator\n"
    "unittest.TestCase.assertEqual = lambda *_: None\noperator.eq = lambda *_: True",
    "a patched loader": "import sys\nsys.modules['solution'].call = lambda *_: True\nsys.meta_path.clear()",
    "a message of the harness": "import os\nfor fd in range(20):\n"
    "    try: os.write(fd, b'value true\\n')\n    except OSError: pass",
    "a patched module": "import builtins\nbuiltins.isinstance = lambda *_: True",
    "a search for the expected values": "import gc\n"
    "found = [o for o in gc.get_objects() if isinstance(o, dict) and 'expected' in o]\n"
    "def parse_amount(text): return found[0]['expected']",
    "the parent's memory": "import os\nopen(f'/proc/{os.getppid()}/mem', 'r+b')",
    "no end": "while True: pass",
    "no end of sleep": "import time; time.sleep(1000)",
    "no end of output": "while True: print('x' * 10000)",
    "no end of memory": "x = bytearray(8 << 30)",
    "no end of processes": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "an exception whose text no row can hold": r"raise ValueError('\ud800')",
    "a result whose text no row can hold": "class C: pass\n"
    r"C.__module__ = '\udfff'" + "\nparse_amount = format_amount = split_evenly = lambda *_: C()",
    "a value like everything": "from unittest import mock\n"
    "parse_amount = format_amount = split_evenly = lambda *_: mock.ANY",
    "text that does not compile": "def parse_amount(: \u2028",
    "zero bytes": "\0\0\0",
}
"""Texts in the place of an allowed file."""


class Judge(InProcessGym):
    def __init__(self) -> None:
        super().__init__()
        self.add(CodeRepairResourcesServer, "env", case_timeout_s=1)

    async def verdict(self, files: dict[str, str]) -> dict[str, Any]:
        answer = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": []}
        row = {**ROW, "response": answer, "folder_files": files}
        reply = await self.post("env", "/verify", row)
        reply.raise_for_status()
        verdict: dict[str, Any] = await reply.json()
        return verdict


def test_the_row_of_these_tests_is_about_the_file_that_they_replace() -> None:
    assert MONEY in SOURCE
    assert ROW["folder"]["files"][MONEY] != files_of("ledger")[MONEY]


@pytest.mark.parametrize("trick", FILES_BESIDE)
async def test_a_file_that_is_not_allowed_changes_nothing(trick: str) -> None:
    judge = Judge()
    alone = await judge.verdict(FILES_BESIDE[trick])
    assert (alone["reward"], alone["failure_reason"]) == (0.0, "unchanged")
    right = {MONEY: files_of("ledger")[MONEY]}
    assert (await judge.verdict({**FILES_BESIDE[trick], **right}))["reward"] == 1.0
    wrong = {MONEY: ROW["folder"]["files"][MONEY] + "\n"}
    assert (await judge.verdict({**FILES_BESIDE[trick], **wrong}))["reward"] == 0.0


@pytest.mark.parametrize("trick", SOURCES)
async def test_a_source_file_that_attacks_gets_nothing(trick: str) -> None:
    verdict = await Judge().verdict({MONEY: SOURCES[trick]})
    assert verdict["reward"] == 0.0
    assert verdict["failure_reason"] not in (None, "unchanged")
