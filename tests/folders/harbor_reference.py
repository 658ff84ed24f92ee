"""What Harbor's own loader, linter and packager say of task folders, as JSON lines. It runs in Harbor's environment.

python harbor_reference.py FOLDER...
"""

import json
import sys
import warnings
from pathlib import Path

from harbor.lint import lint_task
from harbor.models.task.task import Task
from harbor.publisher.packager import Packager

warnings.simplefilter("ignore")
for argument in sys.argv[1:]:
    folder = Path(argument)
    found = {"name": folder.name}
    try:
        task = Task(folder)
        found |= {
            "loads": True,
            "instruction": task.instruction,
            "digest": Packager.compute_content_hash(folder)[0],
        }
    except Exception as error:
        found |= {"loads": False, "error": f"{type(error).__name__}: {error}"}
    try:
        found["lint"] = sorted([each.rule.value, each.line or 0] for each in lint_task(folder))
    except Exception as error:
        found["lint_error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))
