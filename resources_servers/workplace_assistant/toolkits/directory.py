"""The directory of employees."""

from __future__ import annotations

from resources_servers.workplace_assistant.tables import Workplace
from resources_servers.workplace_assistant.tool import Toolkit, refusal

TOOLKIT = Toolkit("company_directory")


@TOOLKIT.tool("Find the email addresses of colleagues by name.", name="A name or a part of one")
def find_email_address(workplace: Workplace, name: str = "") -> list[str]:
    if not name.strip():
        raise refusal("give a name, or a part of one")
    wanted = ".".join(name.casefold().split())
    return [address for address in workplace.addresses if wanted in address]
