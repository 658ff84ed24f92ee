r"""Pairs of mathematical answers with the verdict on them, by the reason for it. Each holds in both orders.

A line is `one | other`. The lines of `EQUAL` are equal, those of `DIFFERENT` and `UNDECIDED` are not accepted; for the
last, the verdict names `undecided`, because the answers may be equal in another reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

EQUAL = {
    "digits may be grouped": r"""
70000 | 70,000
70000 | 70\,000
70000 | 70{,}000
1000 | 1 000
1234567 | 1,234,567
1234567 | 1 234 567
12345.5 | 12,345.5
""",
    "trailing zeros and points mean nothing": r"""
18 | 18.00
5 | 5.
0.5 | .5
0.5 | 0.50
-3 | -3.0
""",
    "a sign may be typeset": r"""
-5 | −5
-5 | –5
5 | +5
-\frac{1}{2} | \frac{-1}{2}
-\frac{1}{2} | \frac{1}{-2}
-\frac{1}{2} | -0.5
""",
    "a fraction equals its decimal, in every spelling": r"""
\frac{1}{2} | 0.5
\frac{1}{2} | 1/2
\frac{1}{2} | \dfrac{1}{2}
\frac{1}{2} | \tfrac12
\frac{1}{2} | \frac12
\frac{1}{2} | ½
\frac{3}{4} | ¾
\frac{2}{4} | \frac{1}{2}
\frac{1}{3} | 0.333333
\frac{2}{3} | 0.666667
\frac{22}{7} | 3.142857
\frac{a}{b} | a/b
\frac{x}{2} | 0.5x
""",
    "a mixed number": r"""
3 1/2 | 7/2
3 1/2 | 3.5
3\frac{1}{2} | 3.5
3\frac12 | \frac{7}{2}
2½ | 2.5
-2\frac{1}{2} | -2.5
1 3/4 | 1.75
""",
    "a repeating decimal is a fraction": r"""
0.\overline{3} | 1/3
0.\overline{3} | \frac{1}{3}
0.(3) | 1/3
0.\bar{3} | 1/3
0.\dot{3} | 1/3
0.1\overline{6} | \frac{1}{6}
0.1(6) | 1/6
2.\overline{3} | \frac{7}{3}
0.\overline{142857} | \frac{1}{7}
0.\overline{9} | 1
-0.\overline{3} | -1/3
0.3̅ | 1/3
""",
    "a power may be written in several ways": r"""
100 | 10**2
100 | 10^2
100 | 10^{2}
100 | 10²
1024 | 2¹⁰
x² | x^2
x² | x**2
x^{10} | x^10
x^{10} | x¹⁰
2^{-3} | 1/8
2^{-3} | 2^-3
2^{-3} | 0.125
2^{n+1} | 2\cdot 2^n
2^{n+1} | 2^(n+1)
e^{-x} | e^(-x)
10^{-3} | 0.001
1500 | 1.5 \times 10^3
1500 | 1.5 × 10³
1500 | 1.5e3
0.00015 | 1.5 \times 10^{-4}
0.00015 | 1.5e-4
6.02\times 10^{23} | 6.02\cdot 10^{23}
""",
    "pi by name, by command and by letter": r"""
2\pi | 2*pi
2\pi | 2pi
2\pi | 2π
2\pi | 2 \pi
2\pi | 2\cdot\pi
2\pi | 2 * pi
\pi | pi
\pi | π
\frac{\pi}{2} | pi/2
\frac{\pi}{2} | π/2
\frac{\pi}{2} | 0.5\pi
\pi r^2 | πr²
\pi r^2 | \pi \cdot r^{2}
\pi | 3.14159265
4\pi^2 | (2\pi)^2
""",
    "infinity by name, by command and by sign": r"""
\infty | ∞
\infty | infinity
\infty | +\infty
-\infty | -∞
-\infty | -infinity
""",
    "a separator at the end closes the sentence": r"""
5 | 5,
5 | 5;
x+1 | x+1,
x+1 | x+1;
x+1 | x+1.
\frac{1}{2} | \frac{1}{2},
\pi | \pi;
\{1,2\} | \{1,2\},
(1,2) | (1,2).
""",
    "math marks and sizes mean nothing": r"""
3 | $3$
3 | \(3\)
3 | $$3$$
(1,2) | \left(1,2\right)
(1,2) | \big(1,2\big)
x+1 | \displaystyle x+1
\{1,2\} | \left\{1,2\right\}
5 | \boxed{5}
""",
    "white space beside a symbol means nothing": r"""
x+1 | x + 1
x+1 | x\,+\,1
(1,2) | ( 1 , 2 )
2x | 2 x
ab+c | a b + c
x=5 | x = 5
\frac{1}{2} | \frac { 1 } { 2 }
\sqrt{2} | \sqrt { 2 }
5km | 5 km
""",
    "a root may be written in several ways": r"""
\sqrt{2} | √2
\sqrt{2} | sqrt(2)
\sqrt{2} | \sqrt2
\sqrt{2} | 2^{1/2}
\sqrt{2} | 2^{0.5}
\sqrt{2} | 1.414214
\sqrt{8} | 2\sqrt{2}
\sqrt{8} | 2√2
\sqrt{8} | 2*sqrt(2)
\frac{1}{\sqrt{2}} | \frac{\sqrt{2}}{2}
\sqrt[3]{8} | 2
\sqrt[3]{2} | 2^{1/3}
\sqrt{x+1} | sqrt(x+1)
\sqrt{x+1} | √(x+1)
\sqrt{2}+\sqrt{3} | \sqrt{5+2\sqrt{6}}
\sqrt{12} | 2\sqrt{3}
|x| | \sqrt{x^2}
""",
    "the same function after simplification": r"""
x+1 | 1+x
2x+2 | 2(x+1)
x^2+2x+1 | (x+1)^2
x^2-1 | (x-1)(x+1)
\frac{x^2-1}{x-1} | x+1
\frac{1}{x}+\frac{1}{y} | \frac{x+y}{xy}
2xy | 2yx
2xy | 2 x y
2xy | 2*x*y
xy | x*y
xy | x y
xy | y \cdot x
a^2b | b a^2
x-y | -(y-x)
\frac{x}{y} | x y^{-1}
x^2 x^3 | x^5
\sin^2 x+\cos^2 x | 1
\sin(2x) | 2\sin x\cos x
\tan x | \frac{\sin x}{\cos x}
\ln(x^2+1)-\ln(x^2+1) | 0
3\ln 2 | \ln 8
\log 100 | 2
\log_2 8 | 3
\log_2(8) | 3
\ln e | 1
e^{i\pi} | -1
e^{\ln 5} | 5
2i | 2\cdot i
i^2 | -1
(1+i)^2 | 2i
|{-3}| | 3
\sin x | sin(x)
\sin x | \sin(x)
\arctan 1 | \frac{\pi}{4}
\cos 60^\circ | \frac{1}{2}
e | 2.718281828
n! | n!
5! | 120
\binom{5}{2} | 10
\binom{n}{1} | n
\lfloor 2.5 \rfloor | 2
\lceil 2.5 \rceil | 3
2+3 | 5
\frac{n(n+1)}{2} | \sum_{k=1}^n k
\int_0^1 x dx | \frac{1}{2}
""",
    "an index": r"""
x_1 | x_{1}
x_1 | x₁
a_{12} | a_12
a_n | a_{n}
""",
    "currency": r"""
18 | $18
18 | \$18
18 | 18 dollars
18 | £18
$18 | 18 dollars
$18 | USD 18.00
$5 million | $5,000,000
$0.05 | 5 cents
£5 | 5 pounds
€5 | 5 euros
-$5 | $-5
""",
    "a unit adds to a bare number, because the question may ask for a number of it": r"""
5 | 5 km
5 | 5\text{ km}
5 | 5\,\mathrm{km}
5 | 5 apples
5 | 5 m
90 | 90^\circ
90 | 90°
90 | 90 degrees
18 | 18 dollars per day
12 | 12\text{ cm}^2
5 | 5 kg m
5 | 5 m/s
2\sqrt{3} | 2\sqrt{3}\text{ cm}
4\pi | 4\pi \text{ square inches}
""",
    "one unit has several names": r"""
5 km | 5 kilometers
5 km | 5\text{ km}
5 km | 5 \text{kilometres}
5 m | 5 meters
5 s | 5 seconds
5 min | 5 minutes
5 h | 5 hours
5 hrs | 5 hours
5 lbs | 5 pounds
5 kg | 5 kilograms
60 km/h | 60 kilometers per hour
60 km/h | 60 kph
30 mph | 30 miles per hour
5 m^2 | 5 square meters
5 cm^3 | 5 cubic centimeters
90^\circ | 90 degrees
5 L | 5 liters
""",
    "units of one dimension convert": r"""
5 km | 5000 m
5 m | 500 cm
1 h | 60 min
1 min | 60 s
2 hours | 120 minutes
1 kg | 1000 g
1 ft | 12 in
3 ft | 1 yd
1 m^2 | 10000 cm^2
1 L | 1000 cm^3
36 km/h | 10 m/s
1 day | 24 hours
2 weeks | 14 days
3 dozen eggs | 36 eggs
2\sqrt{3}\text{ m} | 200\sqrt{3}\text{ cm}
""",
    "a percentage is its number or its hundredth": r"""
50\% | 0.5
50\% | 50
50% | \frac{1}{2}
50 percent | 50%
12.5\% | 0.125
""",
    "the name of a result may be left out": r"""
5 | x=5
5 | x = 5
5 | 5 = x
5 | f(2)=5
5 | a_1 = 5
5 | AB = 5
5 | \angle A = 5
5 | y=2+3
2x+1 | y=2x+1
2x+1 | f(x)=2x+1
\frac{1}{2} | P(A) = 0.5
5 | \approx 5
3.14 | x \approx 3.14
x=5 | x = 5.0
""",
    "a chain of equal expressions states its last": r"""
5 | 2+3=5
8 | 2^3=8
5 | x=2+3=5
12 | 3 \cdot 4 = 12
""",
    "an equation in another form": r"""
y=2x+1 | y-2x=1
y=2x+1 | 2x-y+1=0
x^2+y^2=1 | y^2 = 1 - x^2
x+y=3 | 2x+2y=6
x+y=3 | 3=x+y
""",
    "an inequality is an interval": r"""
x<3 | (-\infty,3)
x<3 | 3>x
x \le 3 | (-\infty,3]
x \leq 3 | x <= 3
x ≤ 3 | x \leqslant 3
x \ge 5 | [5,\infty)
x \geq 5 | 5 \le x
1<x<3 | (1,3)
1<x<3 | 3>x>1
1 \le x < 3 | [1,3)
x>5 | > 5
x \ne 5 | \neq 5
x \neq 5 | x ≠ 5
x+y<3 | y+x<3
x+y<3 | 2x+2y<6
x \in [1,2] | [1,2]
x \in \{1,2\} | \{1,2\}
\mathbb{R} | (-\infty,\infty)
\mathbb{R} | ℝ
""",
    "the order of a set means nothing": r"""
1,2 | 2,1
\{1,2\} | \{2,1\}
\{1,2\} | 2, 1
\{1,2\} | 1 and 2
\{1,2\} | 1\text{ and }2
\{1,2\} | x=1, x=2
1,2,3 | 3;2;1
3, \frac{1}{2} | 0.5, 3
\{3\} | 3
\pm 2 | 2,-2
\pm 2 | \{-2, 2\}
1\pm\sqrt{2} | 1-\sqrt{2}, 1+\sqrt{2}
\emptyset | \{\}
\emptyset | \varnothing
[1,2] \cup [3,4] | [3,4] \cup [1,2]
\{x, y\} | \{y, x\}
""",
    "a pair, member by member": r"""
(1,2) | (1.0, 4/2)
(1,2) | x=1, y=2
(\frac{1}{2}, \pi) | (0.5, pi)
[1,2) | [1.0,2)
(1,2,3) | (1, 2, 3)
(x,y)=(1,2) | (x,y)=(1,2)
((1,2),(3,4)) | ((1,2),(3,4))
(5) | 5
(A) | A
""",
    "a ratio": r"""
3:4 | 3 : 4
2:4 | 1:2
3:4 | 3/4
1:2:3 | 2:4:6
""",
    "a matrix, entry by entry": r"""
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \begin{pmatrix}1&2\\3&4.0\end{pmatrix}
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \begin{bmatrix}1&2\\3&4\end{bmatrix}
\begin{pmatrix}1\\2\end{pmatrix} | \begin{pmatrix}1\\\frac{4}{2}\end{pmatrix}
""",
    "a numeral of a base": r"""
101_2 | 101_{2}
101_2 | (101)_2
101_2 | 101_{\text{two}}
FF_{16} | FF_16
5_{10} | 5
""",
    "words without case and marks": r"""
no | No
yes | Yes.
\text{no solution} | No solution
east | East
\text{True} | true
even | "even"
Tuesday | \text{Tuesday}
no real solutions | no real solutions.
CAT | \text{CAT}
""",
    "a quantity may be stated twice": r"""
1.5 | \text{1 hour 30 minutes} = 1.5 \text{ hours}
1.5 | \frac{3}{2} = 1.5\text{ hours}
1.5 | 90\text{ minutes} = 1.5\text{ hours}
90 | 90\text{ minutes} = 1.5\text{ hours}
90 | 1.5\text{ hours} = 90\text{ minutes}
1.5\text{ hours} | 1.5 \text{ hours (90 minutes)}
1.5 | 1.5\text{ hours} (90\text{ minutes})
1.5 | 1.5\text{ hours}\ (90\text{ minutes})
90 | 1.5 hours (90 minutes)
2500 | 2.5\text{ km} = 2500\text{ m}
2.5 | 2.5\text{ km} = 2500\text{ m}
25 | 0.25 = 25\%
\frac72 | \frac{7}{2} \text{ or } 3.5
3,4 | 3 \text{ or } 4
""",
    "signs in a list name two members each": r"""
1, -1, i, -i | \pm 1, \pm i
-3,-1,1,3 | \pm 1, \pm 3
\{-2,2,-\sqrt{3},\sqrt{3}\} | x=\pm 2, \pm\sqrt{3}
1,-1,2,-2 | x=\pm1 \text{ or } x=\pm2
1,-1,2,-2 | x=\pm1, x=\pm2
\pm 1, \pm i | \pm i, \pm 1
\{\pm 1, \pm 2\} | -2,-1,1,2
0, 2, -2 | 0, \pm 2
\pm 2, 0 | 0, -2, 2
\pm 1 | 1, -1
2 \pm \sqrt{3}, 1 | 1, 2+\sqrt3, 2-\sqrt3
""",
}

DIFFERENT = {
    "white space separates": r"""
3 1/2 | 31/2
1 3/4 | 13/4
2 1/2 | 21/2
1, 2 | 12
1, 2 | 1.2
""",
    "other numbers": r"""
18 | 26
18 | 81
5 | -5
5 | 5!
5! | 25
5 | 50
0.5 | 0.05
1000000 | 1000001
1/3 | 0.333
1/3 | 0.34
\sqrt{2} | 1.4142
\pi | 3.14
\pi | 22/7
e | 2.718
1.000 | 1000
\frac{1}{2} | \frac{2}{1}
2^{10} | 2^1 \cdot 10
102 | 10²
210 | 2¹⁰
10^{22} | 10^{23}
0.0000001 | 0
3\frac{1}{2} | \frac{3}{2}
""",
    "other formulas": r"""
x+1 | x-1
x+1 | x+2
x | -x
x^2 | 2x
3 | 3x
3x | 3y
x | X
A | a
\sqrt{x^2} | x
|x-100| | 100-x
\sin x | \cos x
\ln x | \log x
\sin^{-1} x | \frac{1}{\sin x}
i | -i
2i | 2
n! | n
(n+1)! | n!
x_1 | x_2
2^{n} | n^{2}
\frac{a}{b} | \frac{b}{a}
a-b | b-a
e^{x} | e^{-x}
x^{2}+1 | x^{2}
5 | \infty
\infty | -\infty
\binom{5}{2} | \binom{5}{1}
\pi r^2 | 2\pi r
\log_2 8 | \log_8 2
""",
    "words are no products of letters": r"""
east | seat
west | stew
north | thorn
cat | dog
yes | no
true | false
Monday | Friday
\text{odd} | \text{even}
none | 0
no solution | 0
Paris | Paris, France
""",
    "other units": r"""
5 km | 5 m
5 s | 5 min
5 h | 5 min
5 kg | 5 g
5 kg | 5 km
5 km | 5 miles
5 m | 5 m^2
5 m^2 | 5 m^3
5 km/h | 5 m/s
5 km/h | 5 km
$5 | 5 cents
$5 | €5
$5 | £5
5 apples | 5 oranges
5 cm | 5 mm
5 ml | 5 L
90^\circ | 90%
5 °C | 5 °F
2\sqrt{3}\text{ cm} | 2\sqrt{3}\text{ m}
5 hours | 5 days
5 mW | 5 MW
1 year | 1 month
""",
    "a bare number counts the unit of the other side, and none that converts to it": r"""
5 km | 5000
5 m | 500
1 h | 60
18 dollars | 1800
5 | 5 dozen eggs
""",
    "a letter that follows a number without a space is a factor": r"""
5 | 5m
5 | 5s
5 | 5x
5\text{ m} | 5m
""",
    "a letter that names no unit is a factor": r"""
5 | 5 x
5 | 5 i
5 | 5 k
5 km | 5 k
""",
    "two units leave open which one it is": r"""
5 | 5 km or 5 m
5 km | 5 km or 5 m
""",
    "a relation is no value": r"""
5 | \neq 5
5 | \ne 5
5 | ≠ 5
5 | x \neq 5
5 | > 5
5 | < 5
5 | \ge 5
5 | \le 5
5 | x > 5
5 | x < 5
5 | x \ge 5
5 | x \to 5
x=5 | x \neq 5
x=5 | x > 5
x=5 | x \ge 5
x \equiv 3 \pmod 7 | 3
""",
    "a chain that does not hold states nothing": r"""
5 | 4=5
5 | 1+1=3=5
5 | 1=2=5
5 | 2+2=5
5 | x=4=5
5 | 3+3=5
7 | 2=3+4=7
5 | 5=4
""",
    "other equations": r"""
x=5 | y=5
x=5 | x=6
x=5 | a=5
y=2x+1 | y=2x-1
y=2x+1 | x=2y+1
x^2+y^2=1 | x^2+y^2=2
x+y=3 | x-y=3
""",
    "other intervals": r"""
x<3 | x>3
x<3 | x \le 3
x<3 | y<3
x>5 | x>6
(1,3) | [1,3]
(1,3) | (1,3]
(1,3) | [1,3)
(1,3) | (1,4)
(1,3) | \{1,3\}
[1,3] | \{1,3\}
1<x<3 | 1<x<4
1<x<3 | 1 \le x \le 3
x \neq 5 | x \neq 6
[1,2] \cup [3,4] | [1,4]
[1,2] \cup [3,4] | [1,2]
\mathbb{R} | (0,\infty)
""",
    "several results are none of them": r"""
3 | 3 or 4
3 | 3, 4
3 | 3 and 4
3 | \{3, 4\}
3 | [3, 4]
3 | (3, 4)
3 | \pm 3
3 | 3\text{ or }4
3 | x=3, x=4
\{2, 3\} | 2
\{2, 3\} | \{2, 3, 4\}
1, 2, 3 | 1, 2
1, 2 | 1, 3
\emptyset | 0
\emptyset | \{0\}
""",
    "other pairs": r"""
(1,2) | (2,1)
(1,2) | (1,3)
(1,2) | (1,2,3)
(1,2) | \{1,2\}
(1,2) | [1,2]
(1,234) | 1234
(1,2) | 12
(1,2) | 1.2
(1,2) | x=2, y=1
(1,2) | 2, 1
\{1,2\} | 1 2
""",
    "other ratios": r"""
3:4 | 4:3
3:4 | 3:5
1:2:3 | 1:2:4
""",
    "other matrices": r"""
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \begin{pmatrix}1&2\\3&5\end{pmatrix}
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \begin{pmatrix}1&3\\2&4\end{pmatrix}
\begin{pmatrix}1\\2\end{pmatrix} | \begin{pmatrix}1&2\end{pmatrix}
""",
    "numerals of other values": r"""
101_2 | 101
101_2 | 101_3
101_2 | 111_2
101_2 | 101_{10}
12_5 | 12
FF_{16} | 16
""",
    "statements of one quantity must agree, and one of them is the answer": r"""
1.5 | 1.5\text{ hours} = 100\text{ minutes}
100 | 1.5\text{ hours} = 100\text{ minutes}
1.5 | 1.5\text{ hours} = 90\text{ km}
60 | 1.5\text{ hours} = 90\text{ minutes}
2 | \text{1 hour 30 minutes} = 2\text{ hours}
1.5 | 1.5\text{ hours} (100\text{ minutes})
3 | 3 \text{ or } 4
1.5\text{ m} | 1.5\text{ hours} = 90\text{ minutes}
""",
    "both signs name both members": r"""
1,-1,2 | \pm1, \pm2
1,-1,2,-2,3 | \pm1, \pm2
1,2 | \pm1, \pm2
1,-1 | \pm1, \pm i
(1,2) | (\pm 1, 2)
\pm 1, \pm i | \pm 1
""",
}

UNDECIDED = {
    "white space between digits has no one meaning": r"""
1 2 | 12
1 2 | 3
1 2 | 2
12 34 | 1234
""",
    "letters may be a word or a product": r"""
CAT | ACT
no | on
xy | yx
AB | ab
\text{no} | \text{on}
\text{CAT} | \text{ACT}
""",
    "a numeral of another base may restate the question": r"""
101_2 | 5
101_2 | 5_{10}
FF_{16} | 255
101_2 | 12_3
""",
    "a list may be a pair or two results": r"""
(1,2) | 1, 2
(1,2) | 1 and 2
""",
    "two times of day may have one ratio": r"""
10:20 | 5:10
12:30 | 2/5
""",
    "it is not understood": r"""
3 | \frac{
3 | 3 +
3 | )(
3 | f'(3)
5 | 5@
0.5 | 0.5\ldots
1/2x | \frac{x}{2}
""",
    "its value is not computed": r"""
5 | 9^{9^{9^9}}
5 | \binom{10000000}{5000000}
5 | 10000000!
5 | (10^9)!
5 | 1/0
1/0 | 2/0
""",
}


class Case(NamedTuple):
    """A pair of answers, the verdict on it, and its reason."""

    one: str
    other: str
    verdict: str
    reason: str


def read_cases(*tables: tuple[str, Mapping[str, str]]) -> list[Case]:
    """Return the cases of tables, each with the verdict on its lines."""
    return [
        Case(one, other, verdict, reason)
        for verdict, table in tables
        for reason, lines in table.items()
        for one, other in (line.split(" | ") for line in lines.strip().splitlines())
    ]


def all_cases() -> list[Case]:
    """Return every case of the tables."""
    return read_cases(("equal", EQUAL), ("different", DIFFERENT), ("undecided", UNDECIDED))
