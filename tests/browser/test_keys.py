"""The keyboard alone is enough, and links survive a reload and the way back."""

from __future__ import annotations

from pathlib import Path

from tests.browser.visits import Visit


def test_from_the_runs_to_a_token_and_back(demo: str, visit: Visit) -> None:
    visit.open(demo)
    visit.wait_for("complete", "tbody")
    visit.press("j", "k", "Enter")
    visit.wait_for("Reward by agent")
    visit.press("r")
    visit.wait_for("30 of 30")
    visit.page.locator(".grid-row").first.wait_for()  # the page before has the same count
    visit.press("/")
    visit.page.locator("input:focus").wait_for()
    visit.page.keyboard.type("agent:*session*")
    visit.wait_for("10 of 30")
    visit.press("Escape", "j", "j", "k")
    assert visit.page.locator(".grid-row.active").get_attribute("aria-rowindex") == "3"
    visit.press("Enter")
    visit.wait_for("rollout", "h1")
    visit.press("2")
    visit.page.locator("#raw-row").wait_for()
    visit.press("3")
    visit.wait_for("no record of its tokens")
    visit.press("]")
    visit.press("c")
    visit.wait_for("2 attempts")
    visit.press("j", "Enter")
    visit.wait_for("rollout 1", "h1")


def test_groups_help_and_colours(demo: str, visit: Visit) -> None:
    visit.open(demo, "#/r0/rollouts")
    visit.wait_for("30 of 30")
    visit.press("g")
    visit.wait_for("in 15 tasks")
    visit.press("?")
    visit.wait_for("Rollouts or tasks", "dialog")
    visit.press("Escape")
    visit.page.locator("dialog").wait_for(state="detached")
    visit.press("t", "t")
    assert visit.page.locator("html").get_attribute("data-theme") == "dark"
    visit.page.reload()
    visit.wait_for("in 15 tasks")
    assert visit.page.locator("html").get_attribute("data-theme") == "dark"


def test_every_control_has_the_focus_in_turn(demo: str, visit: Visit) -> None:
    visit.open(demo, "#/r0/rollouts")
    visit.wait_for("30 of 30")
    visit.focus_page()
    seen = set()
    for _ in range(45):
        visit.press("Tab")
        seen.add(
            visit.page.evaluate(
                "document.activeElement.id || document.activeElement.textContent.slice(0, 20)"
            )
        )
    assert {"filter", "Skip to the content", "Overview", "Tasks", "reward"} <= seen


def test_links_survive_reload_and_the_way_back(demo: str, demo_run: Path, visit: Visit) -> None:
    visit.open(demo, "#/r0/rollouts?q=agent:*session*&sort=-total_tokens")
    visit.wait_for("10 of 30")
    visit.page.reload()
    visit.wait_for("10 of 30")
    assert visit.page.locator("#filter").input_value() == "agent:*session*"
    visit.page.locator(".grid-rows a").nth(2).click()
    visit.wait_for("rollout", "h1")
    visit.page.get_by_role("tab", name="raw").click()
    link = visit.page.url
    assert link.endswith("?tab=raw")
    visit.page.go_back()
    visit.wait_for("10 of 30")
    visit.page.goto(link)
    visit.page.locator("#raw-row").wait_for()


def test_an_unknown_address_says_so(demo: str, visit: Visit) -> None:
    visit.open(demo, "#/r0/nowhere")
    visit.wait_for("There is no page at this address.")
    visit.go("#/r0/rollout/999/0")
    visit.wait_for("The run has no rollout 0 of task 999.")
    visit.go("#/r99")
    visit.wait_for("there is no run", ".notice")
