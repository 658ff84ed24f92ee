import pytest

from nemo_gym.verify.answers import AnswerForm, FinalAnswer, final_answer
from resources_servers.math_with_judge.math_equality import compare_plainly, compare_structures
from resources_servers.math_with_judge.stated_units import add_unit, read_unit_behind


def accepts(expected: str, text: str) -> bool:
    found = final_answer(text)
    assert found is not None
    answer = add_unit(expected, found, text)
    return (compare_plainly(expected, answer) or compare_structures(expected, answer)).is_equal


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (r"45^\circ", r"In radians the angle is $\boxed{45}$ radians."),
        (r"5\text{ km}", r"The distance is $\boxed{5}$ m."),
        (r"5\text{ km}", r"The distance is $\boxed{5}\text{ m}$."),
        (r"5\text{ km}", r"The distance is $\boxed{5}\,\mathrm{m}$"),
        (r"5\text{ km}", r"The distance is \(\boxed{5}\) meters long."),
        (r"25\%", r"The share is $\boxed{25}$ per thousand."),
        (r"25\%", r"The share is \boxed{25}‰."),
        (r"\$5", r"It costs $\boxed{5}$ cents."),
        (r"5 minutes", r"It takes $\boxed{5}$ seconds."),
        (r"12\text{ cm}^2", r"The area is $\boxed{12}\text{ cm}^3$."),
        (r"12\text{ cm}^2", r"The area is $\boxed{12}$ square meters."),
        (r"4\pi\text{ cm}", r"It is $\boxed{4\pi}$ inches."),
        (r"60\text{ km/h}", r"The speed is $\boxed{60}$ m/s."),
        (r"30^\circ", r"It is $\boxed{30}$ rad."),
        (r"90^\circ", "The angle is 90 radians."),
        (r"\$45", "She pays 45 cents in total."),
        (r"5\text{ km}", "So the distance is 5 miles."),
    ],
)
def test_another_unit_behind_the_box_is_another_answer(expected: str, text: str) -> None:
    assert not accepts(expected, text)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (r"5\text{ km}", r"The distance is $\boxed{5}$ km."),
        (r"5\text{ km}", r"The distance is $\boxed{5}$ kilometres."),
        (r"5\text{ km}", r"The distance is $\boxed{5}$ km in total."),
        (r"5\text{ km}", r"The distance is $\boxed{5}$."),
        (r"5\text{ km}", r"The distance is $\boxed{5000}$ m."),
        (r"5\text{ km}", r"\boxed{5}"),
        (r"5\text{ km}", r"\boxed{5\text{ km}}"),
        (r"5\text{ km}", r"We get $\boxed{5}$ as the distance."),
        (r"5\text{ km}", r"We get $\boxed{5}$ in the end."),
        (r"5\text{ km}", "$\\boxed{5}$\n\nA mile is longer."),
        (r"5", r"The distance is $\boxed{5}$ m."),
        (r"45^\circ", r"The angle is $\boxed{45}$ degrees."),
        (r"45^\circ", r"The angle is $\boxed{45}^\circ$."),
        (r"45^\circ", r"The angle is $\boxed{\frac{\pi}{4}}$ radians."),
        (r"25\%", r"The share is $\boxed{25}\%$."),
        (r"25\%", r"The share is $\boxed{25}$ percent."),
        (r"25", r"The share is $\boxed{25}$ per thousand."),
        (r"12\text{ cm}^2", r"The area is $\boxed{12}\text{ cm}^2$."),
        (r"12\text{ cm}^2", r"The area is $\boxed{12}$ square centimeters."),
        (r"4\pi\text{ cm}", r"It is $\boxed{4\pi}$ cm."),
        (r"60\text{ km/h}", r"The speed is $\boxed{60}$ km/h."),
        (r"60\text{ km/h}", r"The speed is $\boxed{60}$ kilometers per hour."),
        (r"\$5", r"It costs $\boxed{5}$ dollars per ticket."),
        (r"\$5", r"She has $\boxed{5}$ dollars left."),
        (r"3 years", r"He is $\boxed{3}$ years old."),
        (r"9.8\text{ m/s}^2", r"It is $\boxed{9.8}\ \text{m/s}^2$."),
        (r"20^\circ\text{C}", r"It is $\boxed{20}^\circ\text{C}$."),
        (r"20^\circ\text{C}", r"It is $\boxed{20}$ degrees Celsius."),
        (r"5\text{ apples}", r"He has $\boxed{5}$ red apples."),
        (r"3:30", r"It is $\boxed{3:30}$ hours."),
        (r"90^\circ", "The angle is 90 degrees."),
        (r"\$45", "She pays 45 dollars in total."),
        (r"5\text{ km}", "So the distance is 5 kilometers."),
    ],
)
def test_the_same_unit_or_none_behind_the_box_changes_nothing(expected: str, text: str) -> None:
    assert accepts(expected, text)


@pytest.mark.parametrize(
    "text", ["", ".", "$ in the end", "$ dollars per ticket", "$ xy", "$ as the result", "$ of them"]
)
def test_words_that_are_no_known_unit_are_none(text: str) -> None:
    assert not read_unit_behind(text)


def test_only_a_box_has_a_unit_behind_it() -> None:
    assert add_unit("5 km", FinalAnswer("5", AnswerForm.LINE), r"\boxed{5} m") == "5"
