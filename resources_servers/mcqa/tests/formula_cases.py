r"""Statements of options that are formulas, as those of `choice_cases`: each formula in several spellings."""

from __future__ import annotations

from resources_servers.mcqa.tests.choice_cases import EVERY, LENIENT, Table

FUNCTIONS = {"A": "$x^2$", "B": "$2x$", "C": r"$\frac{1}{x}$", "D": r"$\sqrt{x}$", "E": r"$\frac{1}{2x}$"}
ANGLES = {"A": r"$\pi$", "B": r"$2\pi$", "C": r"$\frac{\pi}{2}$", "D": r"$\frac{\pi}{4}$"}
RATIOS = {"A": r"$\frac{b}{a}$", "B": "$ab$", "C": r"$\frac{a}{b}$", "D": "$a+b$"}
ENERGIES = {"A": "$mv^2$", "B": "$mgh$", "C": r"$\frac{1}{2}mv^2$", "D": "$mc^2$"}
WEIGHTS = {"A": "$mg$", "B": "$gh$", "C": "$mgh$", "D": r"$\frac{mg}{h}$"}
MOLECULES = {"A": "H2O", "B": "CO", "C": "CO2", "D": "H2O2"}
SALTS = {"A": "Na2CO3", "B": r"$\text{NaCl}$", "C": r"$\text{NaHCO}_3$", "D": "NaOH"}

NAMED_FORMULAS = {
    "a fraction of one": Table(FUNCTIONS, LENIENT, r"""
1/x
$1/x$
\frac{1}{x}
\dfrac1x
\tfrac{1}{x}
\frac 1 x
\frac{1} {x}
f(x) = 1/x
"""),
    "a fraction of a constant": Table(ANGLES, LENIENT, r"""
\pi/2
π/2
\frac\pi2
\frac \pi 2
\dfrac{\pi}2
pi/2
"""),
    "a fraction of letters": Table(RATIOS, LENIENT, r"""
a/b
a / b
\frac ab
\frac{a}b
\dfrac a{b}
"""),
    "a product with spaces": Table(ENERGIES, LENIENT, r"""
\frac{1}{2} m v^2
\frac{1}{2}mv^2
\frac12\,m\,v^{2}
½mv²
(1/2)mv^2
1/2 mv^2
K = \frac{1}{2} m v^2
"""),
    "a product of three letters": Table(WEIGHTS, LENIENT, r"""
mgh
m g h
m\,g\,h
$mg h$
"""),
    "a molecule": Table(MOLECULES, LENIENT, r"""
CO2
CO_2
CO₂
\text{CO}_2
\mathrm{CO_2}
\mathrm{CO}_{2}
\ce{CO2}
$\text{CO}_2$
$CO_2$
"""),
    "a molecule that reads as a word": Table(SALTS, LENIENT, r"""
NaHCO3
NaHCO_3
NaHCO₃
\ce{NaHCO3}
\mathrm{NaHCO_3}
"""),
    "a letter before its formula": Table(ENERGIES, EVERY, r"""
C: \frac12 m v^2
C) 1/2 mv^2
(C) ½mv²
"""),
    "a letter before its molecule": Table(MOLECULES, EVERY, r"""
C: CO_2
C) \ce{CO2}
(C) \text{CO}_2
"""),
}  # fmt: skip

UNNAMED_FORMULAS = {
    "another fraction": Table(FUNCTIONS, EVERY, r"""
1/2/x
1/x+1
1/2x
\frac{x}{1}
\frac{1}{x}y
-1/x
1/x^2
"""),
    "another product": Table(WEIGHTS, EVERY, r"""
hgm
mg/h^2
mgh^2
"""),
    "another molecule": Table(MOLECULES, EVERY, r"""
CO^2
2CO
C_2O
CO_3
CO_2^{2-}
"""),
}  # fmt: skip
