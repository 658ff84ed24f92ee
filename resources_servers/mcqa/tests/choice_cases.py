r"""Statements of a choice with the option that they name, by the reason for it.

A line is a statement, and every statement is tried in every place that its table names: in a box, after "Answer:", in
a tag. The statements of `NAMED` name the option C of their question; those of `NOT_NAMED` name none, in any place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

GASES = {"A": "Oxygen", "B": "Argon", "C": "Nitrogen", "D": "Carbon dioxide"}
NUMBERS = {"A": "12", "B": "-12", "C": "24", "D": "12.5", "E": "1/12"}
POWERS = {"A": "$2x$", "B": r"$\frac{x}{2}$", "C": "$x^2$", "D": "$x^2 + 1$"}
TRENDS = {"A": "It decreases", "B": "None of the above", "C": "It increases", "D": "It does not change"}
CITIES = {"A": "Paris", "B": "York", "C": "Rome", "D": "New Rome"}
VITAMINS = {"A": "Vitamin D", "B": "Hepatitis A", "C": "Vitamin C", "D": "Both A and B"}
ALLELES = {"A": "AA", "B": "aa", "C": "Aa", "D": "CO"}
LETTERS: dict[str, str] = dict.fromkeys("ABCDEFGHIJ", "")

STRICT, BOXED = "strict_single_letter_boxed", "lenient_boxed"
LINE, WORDS, ANY = "lenient_answer_colon", "lenient_answer_colon_md", "lenient"
ANY_LINE = "lenient, in a line"
PLACES = {
    STRICT: (r"So it is \boxed{%s}.", r"$$\boxed{\text{%s}}$$"),
    BOXED: (r"So it is \boxed{%s}.",),
    LINE: ("Answer: %s", "So.\nThe answer is %s"),
    WORDS: ("**Answer:** %s",),
    ANY: (r"\boxed{%s}", "<answer>%s</answer>"),
    ANY_LINE: ("Final answer: %s", "Final Answer\n\n%s"),
}
"""Texts with a place for the statement, by the grading mode that reads them."""


class Table(NamedTuple):
    """Statements about one question, and the places in which they are tried."""

    options: Mapping[str, str]
    places: tuple[str, ...]
    statements: str


EVERY = tuple(PLACES)
LENIENT = (BOXED, LINE, WORDS, ANY, ANY_LINE)

NAMED = {
    "the letter alone": Table(GASES, EVERY, r"""
C
(C)
[C]
C.
C)
"C"
“C”
'C'
**C**
`C`
$C$
\(C\)
\text{C}
\textbf{(C)}
\mathrm{C}
\mathbf{(C)}
{\bf C}
\textbf{\text{C}}
\left( C \right)
\,C\,
\textcolor{red}{C}
{C}
C!
✅ C
C ✓
Ｃ
"""),
    "a label before its text": Table(GASES, EVERY, r"""
C: Nitrogen
C) Nitrogen
(C) Nitrogen
C. Nitrogen
[C] nitrogen
C - Nitrogen
C – Nitrogen
\textbf{(C)}\ Nitrogen
\textbf{(C) }Nitrogen
(C)~Nitrogen
C: \text{Nitrogen}
C (Nitrogen)
C, nitrogen
C = Nitrogen
C Nitrogen
**C: Nitrogen**
C: Nitrogen gas
C: Nitrogen (N2)
C: the gas nitrogen
C: Nitrogen. I hope it is correct.
C: Nitrogen, no doubt
C: Nitrogen. The other options are wrong.
"""),
    "a label before its number": Table(NUMBERS, EVERY, r"""
C: 24
(C) 24
\textbf{(C) } 24
C) $24$
C: 24.0
C. 24.
C (24)
C = 24
C: 24 cm
"""),
    "a label before its formula": Table(POWERS, EVERY, r"""
C: x^2
C) $x^2$
(C) \(x^2\)
C. x²
C ($x^{2}$)
C: x^{2}
"""),
    "an option's text may deny and name letters": Table(TRENDS | {"C": "It is not A or B"}, EVERY, r"""
C: It is not A or B
C) it is not A or B.
C (It is not A or B)
"""),
    "the text that names its letter": Table(VITAMINS, EVERY, r"""
C: Vitamin C
C) vitamin C.
C, Vitamin C
C (Vitamin C)
C: The compound vitamin C
"""),
    "the option's kind before its letter": Table(GASES, LENIENT, r"""
Option C
option C
option (C)
Option C.
Choice C
choice (C)
the letter C
the correct option is C
Option C: Nitrogen
Option C) Nitrogen
option C, nitrogen
\text{Option C}
**Option C**
definitely C
it is C
"""),
    "all of an option's text": Table(GASES, LENIENT, r"""
Nitrogen
nitrogen
NITROGEN.
"Nitrogen"
\text{Nitrogen}
\textbf{nitrogen}
**Nitrogen**
$\text{Nitrogen}$
the nitrogen
Nitrogen (C)
Nitrogen, option C
(C) nitrogen
Nitrogen. I hope it is correct.
It is nitrogen.
the gas is nitrogen
"""),
    "all of a number": Table(NUMBERS, LENIENT, r"""
24
24.
$24$
\(24\)
24.0
\text{24}
{24}
x = 24
n=24
$x = 24$
24 (C)
24 cm
24\text{ cm}
\mathbf{24}
3 \cdot 8 = 24
"""),
    "all of a formula": Table(POWERS, LENIENT, r"""
x^2
$x^2$
\(x^2\)
x^{2}
x²
$x^{2}$.
y = x^2
f(x) = x^2
"""),
    "all of a sentence": Table(TRENDS, LENIENT, r"""
It increases
it increases.
"It increases."
\text{It increases}
It increases (C)
Option C: It increases
"""),
    "the case decides between texts that differ in nothing else": Table(ALLELES, LENIENT, r"""
Aa
$Aa$
\text{Aa}
"""),
    "words after the letter or the text": Table(GASES, (WORDS, ANY_LINE), r"""
C because it is inert
C, because A is wrong
C since B and D are compounds
C, of course
C is correct
C is the correct answer.
C, I think
C, without a doubt
C. The others are wrong.
C as A burns
C rather than A
c) because it is inert
Option C because of its mass
option C is right
"""),
    "another option is denied": Table(GASES, (WORDS, ANY_LINE), r"""
C, not A.
C, not A
C and not A
C and definitely not A
C, never A
C but not A
C, and not B
C (not A)
C; A is wrong
C, A is wrong
C (A is wrong)
C, A and B are wrong
C; A, B and D are incorrect
C, option A is ruled out
C; A isn't right
C (A and D can be ruled out)
C, while A is wrong
C, not A or B
C is right, A is wrong
C is correct and not A
C, not oxygen
C; oxygen is wrong
C: Nitrogen, not Oxygen
C (Nitrogen), not A
Nitrogen, not oxygen
Nitrogen and not oxygen
Nitrogen, not A
Nitrogen (not oxygen)
"""),
    "another option is denied after a letter that is a word": Table(
        {"A": "Oxygen", "C": "Nitrogen", "D": "Argon"}, (WORDS, ANY_LINE), r"""
C (A is wrong)
C; A does not fit
"""),
    "a property in words of doubt": Table(GASES, (WORDS, ANY_LINE), r"""
C is the least likely to react
C has the least mass
C is the gas that is hard to mistake
C is what remains
C is the natural choice
"""),
    "a place or a reason after the text": Table(CITIES, (BOXED, WORDS, ANY, ANY_LINE), r"""
Rome, Italy
Rome is the capital
Rome because it is old
Rome (the capital)
the capital is Rome
The city is Rome.
"""),
    "letters without texts": Table(LETTERS, EVERY, r"""
C: I am sure
C. A classic result
C: Hepatitis B virus
C. I hope this is right.
(C) A protein of type B
"""),
}  # fmt: skip

NOT_NAMED = {
    "another option, by its letter": Table(GASES, EVERY, r"""
C or A
C, A
C/A
C and A
C & A
C+A
C A
C-A
C–D
C to D
C; A
C. otherwise A
C. Otherwise A
C. Also B
C, alternatively B
C. Alternatively, B
C then A
C then B then A then D
C versus B
C vs. B
C. Option A
C, option A
C: option B
C as well as A
C along with D
C plus B
C but B is possible
C, followed by A
C, failing that A
C, else A
C over to A
C. Second guess A
C (or A)
C (maybe A)
either C or D
both C and A
Option C or option A
option C then option A
A, B, C
ABCD
C. Possibly B.
C; if that fails, A
C, since I have to choose, otherwise A
C because it is inert, or perhaps A
C for now, B later
Nitrogen (A)
Nitrogen, option B
C. A is right too
c or a
"""),
    "another option, by its text": Table(GASES, EVERY, r"""
C: Oxygen
C) Argon
(C) Carbon dioxide
C (Oxygen)
C, oxygen
C = Argon
A: Nitrogen
D: Nitrogen or Argon
C: Nitrogen or Oxygen
Nitrogen and argon
Nitrogen or oxygen
Nitrogen, then oxygen
Nitrogen/Oxygen
Nitrogen (or oxygen)
C then oxygen
C. Also argon
C: Nitrogen, also Argon
"""),
    "a denial": Table(GASES, EVERY, r"""
not C
¬C
~C
!C
-C
−C
C'
C’
C^c
\neg C
\lnot C
\not C
\overline{C}
\bar{C}
\sim C
\cancel{C}
~~C~~
<s>C</s>
❌ C
C ❌
C ✗
\neq C
\ne C
≠ C
C is wrong
C is not right
C isn't right
C ruled out
C is ruled out
C was ruled out
C has been ruled out
C can be ruled out
C is out
C is eliminated
C eliminated
C: eliminated
C (eliminated)
C has been excluded
C is excluded
C would be a mistake
C is a mistake
C is a trap
C is a distractor
C is impossible
C seems implausible
C must be rejected
C should be discarded
C is untrue
C is mistaken
C fails
anything but C
everything except C
not nitrogen
Nitrogen is wrong
Nitrogen is ruled out
never C
non-C
"""),
    "a remark that rejects": Table(GASES, EVERY, r"""
C is the least likely
C is the least likely option
C is the least plausible answer
C is less likely than the others
C is the least likely to be correct
C is what most people would wrongly pick
C is what many students pick
C is often chosen mistakenly
C is a common mistake
C is a common mistake of beginners
C is a classic trap
C is what many would guess
C would be the naive guess
C is the typical error
C is a tempting choice
C is a common misconception
C is far from right
C is the runner-up
C is the opposite of the answer
C. This is the least likely option.
C. It is a common mistake.
Nitrogen is a common mistake
Nitrogen is the least likely
"""),
    "a denial of another option that denies the choice too": Table(GASES, EVERY, r"""
C is wrong, not A
C, A is wrong too
C; A is not wrong
C; A isn't impossible
C, not A but B
C, not sure
C, not that A is wrong
C or A, not B
C and not C
not C, not A
C; A is also right
Nitrogen, not only oxygen
"""),
    "a hedge": Table(GASES, EVERY, r"""
maybe C
perhaps C
possibly C
C?
C, maybe
C perhaps
C or not
C or something else
either C
C might be right
C could be right
C may be correct
C, if it is inert
C unless it burns
"""),
    "another mathematical object than the letter": Table(GASES, EVERY, r"""
C^2
C_1
2C
C++
C#
C*
|C|
C%
C + 1
C^*
\sqrt{C}
\frac{C}{2}
C-reactive protein
X
Z: Nitrogen
CC
\mathbb{C}
"""),
    "a number that is a part of something else": Table(NUMBERS, EVERY, r"""
24^2
24!
\sqrt{24}
24%
24\%
\frac{24}{5}
\frac{5}{24}
24\cdot 2
24 + 3
24 - 3
24x
-24
> 24
\geq 24
\le 24
< 24
\neq 24
≈ 24
\approx 24
about 24
at least 24
less than 24
24.5
.24
240
1,240
24/7
24:7
24 \times 10^3
24 million
24, 7
(24, 7)
\{24, 7\}
2x = 24
24 squared
24 or more
\pm 24
24 \pm 1
\log 24
|24 - x|
24 \div 2
24 mod 7
24_8
2^{24}
not 24
"""),
    "a letter with another number": Table(NUMBERS, EVERY, r"""
A: 24
C: 12
C) 25
(C) 24.5
C: 24^2
C: 24!
C: 24%
C = 12
C (12)
C: -24
C: 24 or 12
"""),
    "a formula that is a part of something else": Table(POWERS, EVERY, r"""
x^2 - 1
2x^2
-x^2
x^{2n}
\frac{x^2}{2}
(x^2)'
\sqrt{x^2}
x^2 + x
x
x^3
> x^2
"""),
    "a sentence that goes on": Table(TRENDS, EVERY, r"""
It increases, then decreases
It increases and then decreases
It increases but only slightly
It increases or decreases
It increases before it falls
It increases until noon
It increases. Then it decreases.
It increases; then it decreases
It increases, but not always
It increases if heated
It never increases
It is false that it increases
Either it increases or it decreases
It increases slowly
First it increases
"""),
    "a name within another name": Table(CITIES, EVERY, r"""
Romeo
Old Rome
Rome and Paris
Rome, then Paris
Rome vs Paris
not Rome
Rome or York
North Rome
"""),
    "no letter at all": Table(LETTERS, EVERY, r"""
a mystery
A mystery
I do not know
a good question
see above
?
-
none
all
"""),
    "letters without texts that name several": Table(LETTERS, EVERY, r"""
C: A or B
C. Also A
C then D
C otherwise A
C, D, E
C: A is right
"""),
}  # fmt: skip
