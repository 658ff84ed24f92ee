"""Every statement of the table of choices, in every place that its mode reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resources_servers.mcqa.choices import ChoiceFormat, read_choice
from resources_servers.mcqa.tests.choice_cases import ANY, ANY_LINE, NAMED, NOT_NAMED, PLACES, Table
from resources_servers.mcqa.tests.formula_cases import NAMED_FORMULAS, UNNAMED_FORMULAS

ALL_NAMED = NAMED | NAMED_FORMULAS
ALL_NOT_NAMED = NOT_NAMED | UNNAMED_FORMULAS


def cases(table: Table) -> Iterator[tuple[ChoiceFormat, str]]:
    for place in table.places:
        for template in PLACES[place]:
            for statement in table.statements.strip("\n").splitlines():
                yield ChoiceFormat(ANY if place == ANY_LINE else place), template.replace("%s", statement)


@pytest.mark.parametrize("reason", ALL_NAMED)
def test_a_statement_that_names_one_option_picks_it(reason: str) -> None:
    table = ALL_NAMED[reason]
    wrong = [
        f"{form}: {text!r} -> {found}"
        for form, text in cases(table)
        if (found := read_choice(text, table.options, form)) != "C"
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("reason", ALL_NOT_NAMED)
def test_a_statement_that_names_no_option_or_several_picks_nothing(reason: str) -> None:
    table = ALL_NOT_NAMED[reason]
    wrong = [
        f"{form}: {text!r} -> {found}"
        for form, text in cases(table)
        if (found := read_choice(text, table.options, form)) is not None
    ]
    assert not wrong, "\n".join(wrong)
