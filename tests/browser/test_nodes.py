"""The machines of a run: of a real one that lost a node, and of made ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.viewer.exporting import export_page
from nemo_gym.viewer.filtering import RowFilter
from nemo_gym.viewer.finding import find_runs
from tests.browser.conftest import serving
from tests.browser.rows import FAILED_AT, failure_of, message, nodes_document, row_of, write_nodes, write_run
from tests.browser.visits import Visit

ENVIRONMENT = "example_session_state_mgmt"
CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml",
    "responses_api_models/scripted_model/configs/scripted_model.yaml",
)
BEFORE_THE_LOSS = 10
"""Rows that there are before a node is killed."""
WITHIN_S = 240.0


class LostRun(NamedTuple):
    """A run, and its nodes."""

    rows: Path
    lost: str
    """The one that was killed."""
    other: str


@pytest.fixture(scope="module")
def lost_run(tmp_path_factory: pytest.TempPathFactory) -> LostRun:
    """The rows of a run on two machines, of which the one with the model was killed.

    The run is paused from the loss until the machine is back: on a busy machine it would end before.
    """
    folder = tmp_path_factory.mktemp("lost")
    rows = folder / "out.jsonl"
    command = [
        str(Path(sys.executable).with_name("ng_e2e_collect_rollouts")),
        *(f"+config_paths=[{','.join(CONFIGS)}]", "+placement=hosts", "+hosts=[node1,node2]"),
        *('+host_command="env NODE={host}"', "+advertised_host=127.0.0.1"),
        *("++head_server.host=127.0.0.1", "++head_server.port=0", f"+nemo_gym_log_dir={folder / 'logs'}"),
        "++policy_model.responses_api_models.scripted_model.engine.latency_s=0.3",
        *("+num_repeats=40", "+num_samples_in_parallel=16", f"+output_jsonl_fpath={rows}"),
    ]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    folder.chmod(0o700)
    with subprocess.Popen(command, cwd=PARENT_DIR, env=environment, stdout=subprocess.DEVNULL) as collecting:
        try:
            _wait_for_rows(rows, collecting)
            (nodes,) = (folder / "logs").glob("*/nodes.json")
            replicas = json.loads(nodes.read_bytes())["replicas"]
            node = next(each["node"] for each in replicas if each["server"] == "policy_model")
            _kill_node(collecting.pid, node)
            _control("pause", rows, environment)
            _wait_until_back(nodes, node, collecting)
            _control("resume", rows, environment)
            assert collecting.wait(WITHIN_S) == 0
        finally:
            collecting.kill()
    return LostRun(rows, node, "node2" if node == "node1" else "node1")


def _wait_for_rows(rows: Path, collecting: subprocess.Popen[bytes]) -> None:
    give_up_at = time.monotonic() + WITHIN_S
    while not rows.exists() or len(rows.read_bytes().splitlines()) < BEFORE_THE_LOSS:
        assert collecting.poll() is None
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def _wait_until_back(nodes: Path, node: str, collecting: subprocess.Popen[bytes]) -> None:
    give_up_at = time.monotonic() + WITHIN_S
    while not any(
        (each["kind"], each["node"]) == ("back", node) for each in json.loads(nodes.read_bytes())["events"]
    ):
        assert collecting.poll() is None
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def _control(verb: str, rows: Path, environment: dict[str, str]) -> None:
    command = [str(Path(sys.executable).with_name("ng_control")), f"+verb={verb}", f"+run={rows}"]
    subprocess.run(command, cwd=PARENT_DIR, env=environment, check=True, stdout=subprocess.DEVNULL)


def _kill_node(launcher: int, node: str) -> None:
    """Kill the processes of a node at once, as the loss of a machine does."""
    children = psutil.Process(launcher).children(recursive=True)
    victims = [each for each in children if each.environ().get("NODE") == node]
    assert victims
    for victim in victims:
        victim.kill()


@pytest.fixture(scope="module")
def lost(lost_run: LostRun) -> Iterator[str]:
    """The address of a viewer of that run."""
    with serving([lost_run.rows]) as address:
        yield address


def rows_of_table(visit: Visit, label: str) -> list[dict[str, str]]:
    """Return the rows of a table by the titles of its columns."""
    table = visit.page.get_by_role("group", name=label, exact=True)
    titles = table.locator("th").all_inner_texts()
    rows = table.locator("tbody tr").all()
    return [dict(zip(titles, row.locator("td").all_inner_texts(), strict=True)) for row in rows]


def test_the_nodes_of_a_run_are_those_of_its_records(lost: str, lost_run: LostRun, visit: Visit) -> None:
    visit.open(lost, "#/r0")
    visit.wait_for("2 of 2", ".figures")
    visit.focus_page()
    visit.press("n")
    visit.wait_for("The nodes at the end of the run")
    nodes = {each["Node"]: each for each in rows_of_table(visit, "Nodes")}
    other, gone = nodes[lost_run.other], nodes[lost_run.lost]
    assert (other["State"], other["Losses"], other["Generation"]) == ("up", "0", "2")
    assert (gone["State"], gone["Losses"], gone["Generation"], gone["Replicas"]) == ("up", "1", "–", "–")
    assert (other["Address"], other["Replicas"].count(",")) == ("127.0.0.1", 2)
    model = next(each for each in rows_of_table(visit, "Replicas") if each["Server"] == "policy_model #0")
    assert (model["Node"], model["Generation"]) == (lost_run.other, "2")
    kinds = visit.page.locator(".events .badge").all_inner_texts()
    assert (kinds[-1], "back" in kinds, "moved" in kinds) == ("lost", True, True)


def test_a_loss_and_the_attempts_that_it_made_fail_lead_to_each_other(
    lost: str, lost_run: LostRun, visit: Visit
) -> None:
    node = lost_run.lost
    failures = lost_run.rows.with_name("out_failures.jsonl").read_text().splitlines()
    count = sum(json.loads(line)["_ng_failure_class"] == "transport:node_lost" for line in failures)
    assert count
    visit.open(lost, "#/r0/nodes")
    visit.wait_for(f"the node {node} was lost", ".events li:last-child")
    visit.page.locator(".events li:last-child").get_by_text("failed attempt").click()
    visit.wait_for(f"{count} of {len(failures)}")
    visit.page.locator("#row-1 a").wait_for()
    visit.press("j", "Enter")
    visit.page.get_by_role("link", name="the loss of the node").click()
    visit.wait_for(f"the node {node} was lost", ".events [aria-current=true]")
    visit.page.locator(".events [aria-current=true]").get_by_role("link", name=f"log of {node}").click()
    visit.wait_for(f"INFO launcher: the node {node} was lost, with", ".events .log")
    visit.go("#/r0/failures")
    visit.page.get_by_role("link", name="What has happened to the nodes").first.click()
    visit.wait_for(f"the node {node} was lost", ".events [aria-current=true]")


def test_the_log_of_every_node_and_replica_is_shown(lost: str, visit: Visit) -> None:
    visit.open(lost, "#/r0/nodes")
    visit.wait_for("The nodes at the end of the run")
    links = visit.page.get_by_role("link", name="log of")
    hrefs = [link.get_attribute("href") for link in links.all()]
    assert len(set(hrefs)) >= 5  # two nodes, three servers
    for href in hrefs:
        visit.go(href)
        visit.page.locator(".log pre, .log .muted").first.wait_for()
        assert visit.page.locator(".notice.error").count() == 0


def made_run(folder: Path, **changes: Any) -> Path:
    folder.mkdir()
    failed = [{**failure_of(task, 0, message="lost", peer="policy"), "_ng_failure_class": "transport:node_lost"}
              for task in (1, 2)]  # fmt: skip
    run = write_run(folder / "out.jsonl", [row_of(0, 0, [message("x")])], failed)
    write_nodes(run, nodes_document(**changes))
    return run


def test_a_gym_that_runs_is_followed(tmp_path: Path, visit: Visit) -> None:
    later = time.time() + 3600  # so that the gym is not silent, however long the page takes
    run = made_run(tmp_path / "run", at=later)
    with serving([run]) as address:
        visit.open(address, "#/r0/nodes")
        visit.wait_for("The gym is running.")
        assert [each["State"] for each in rows_of_table(visit, "Nodes")] == ["up", "lost"]
        back = {"at": FAILED_AT + 3, "kind": "back", "text": "the node node2 is up again", "node": "node2"}
        changed = nodes_document(at=later)
        changed["nodes"][1]["state"] = "up"
        write_nodes(run, {**changed, "events": [*changed["events"], back]})
        visit.wait_for("the node node2 is up again", ".events li")
        assert [each["State"] for each in rows_of_table(visit, "Nodes")] == ["up", "up"]


def test_a_gym_that_was_killed_is_not_shown_as_running(tmp_path: Path, visit: Visit) -> None:
    with serving([made_run(tmp_path / "run")]) as address:
        visit.open(address, "#/r0/nodes")
        visit.wait_for("The gym has not written since 2026-05-01T18:30:05 UTC")


def test_an_exported_file_has_the_nodes_without_logs(tmp_path: Path, visit: Visit) -> None:
    target = tmp_path / "run.html"
    run = made_run(tmp_path / "run")
    target.write_text(export_page(find_runs([run]), RowFilter("")).html, encoding="utf-8")
    visit.open(target.as_uri(), "#/r0/nodes")
    visit.wait_for("the node node2 was lost, with policy #1", ".events li")
    assert len(rows_of_table(visit, "Nodes")) == 2
    assert visit.page.get_by_role("link", name="log of").count() == 0
    visit.page.get_by_role("link", name="2 failed attempts").click()
    visit.wait_for("2 of 2")


def test_narrow_screens_scroll_the_tables_only(tmp_path: Path, visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 360, "height": 700})
    with serving([made_run(tmp_path / "run")]) as address:
        visit.open(address, "#/r0/nodes?server=policy&log=node_node2.log")
        visit.wait_for("a line of node_node2", ".events .log")
        width = visit.page.evaluate("document.documentElement.scrollWidth")
        assert width == 360


def test_a_run_on_one_machine_shows_no_nodes(demo: str, visit: Visit) -> None:
    visit.open(demo, "#/r0")
    visit.wait_for("Scored", ".figures")
    assert visit.page.get_by_role("link", name="Nodes").count() == 0
    assert "Nodes" not in visit.text(".figures")
    visit.focus_page()
    visit.press("n", "?")
    assert "Nodes" not in visit.text("dialog")
    visit.go("#/r0/nodes")
    visit.wait_for("its servers ran on one machine")
