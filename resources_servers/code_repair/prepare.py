"""Generate repair tasks: small packages with one or two bugs each, and tests that show them."""

from __future__ import annotations

from nemo_gym.datasets.making import generator_options, make_tasks, write_rows
from resources_servers.code_repair.tasks import make_task


def main(arguments: list[str] | None = None) -> None:
    options = generator_options(__doc__, arguments)
    write_rows(make_tasks(make_task, options), options.output)


if __name__ == "__main__":
    main()
