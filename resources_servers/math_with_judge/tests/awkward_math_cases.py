r"""Pairs of mathematical answers in awkward forms, by their class: rounding, size, counted things, typesetting.

A line is `one | other`, in the format of `math_cases`. The lines of `EQUAL` are accepted in both orders, those of
`REJECTED` in none; the reason of a rejection is left open.
"""

from __future__ import annotations

from resources_servers.math_with_judge.tests.math_cases import Case, read_cases

EQUAL = {
    "the same object in another notation": r"""
(2,1) | y=1, x=2
(1,2,3) | z=3, x=1, y=2
(3,4) | b=4,\ a=3
5:3 | 5\colon 3
5:3 | \text{5 to 3}
2:3:4 | 2 \text{ to } 3 \text{ to } 4
\langle 1,2,3\rangle | (1, 2, 3)
\langle 1,2\rangle | \left\langle 1, 2\right\rangle
3 | 3 \pmod{7}
3 | 3 \ (\text{mod } 7)
x \equiv 3 \pmod 7 | x \equiv 3 \pmod{7}
\frac{\pi}{2}+k\pi, k\in\mathbb{Z} | x = \frac{\pi}{2} + n\pi,\ n \in \mathbb{Z}
2k\pi, k \in \mathbb{Z} | 2n\pi \text{ where } n \text{ is an integer}
k\pi, k\in\mathbb{Z} | m\pi, m \in \mathbb Z
""",
    "words with an explanation, and days": r"""
\text{Yes} | \text{Yes, the series converges}
\text{No} | \text{No, it does not converge}
\text{infinitely many} | \text{infinitely many solutions}
\text{March 5} | March 5th
\text{March 5} | \text{5 March}
\text{March 5} | \text{the 5th of March}
""",
    "a whole number of any size": r"""
2^{1000} | 4^{500}
2^{1000}-1 | (2^{500}-1)(2^{500}+1)
2^{2024}-2 | 2(2^{2023}-1)
100! | 100\cdot 99!
100!+1 | 1+100!
\frac{3^{2025}-1}{2} | \frac{1}{2}(3^{2025}-1)
\binom{100}{50} | \frac{100!}{50!50!}
2025\cdot2^{2024}+1 | 1+2025\cdot 2^{2024}
2^{64} | 18446744073709551616
2^{200} | 1606938044258990275541962092341162602522202993782792835301376
1000000000000000000000000000000000000000000000000 | 10^{48}
7^{100}+7^{50} | 7^{50}(7^{50}+1)
\sqrt{10^{100}} | 10^{50}
-2^{500} | -(4^{250})
2^{-200} | \frac{1}{2^{200}}
\frac{10^{30}-1}{9} | 111111111111111111111111111111
10^{1000}\pi | \pi\cdot 10^{1000}
\sum_{k=0}^{100} 2^k | 2^{101}-1
3^{100}+1 | 9^{50}+1
2^{10000}+1 | 1+4^{5000}
7^{365} | 7\cdot 7^{364}
2^{607}-1 | -1+2^{607}
\binom{2000}{1000} | 2\binom{1999}{999}
2^{100}\cdot 3^{100} | 6^{100}
5^{2023}-5 | 5(5^{2022}-1)
\frac{10^{2024}-1}{3} | \frac{1}{3}\left(10^{2024}-1\right)
""",
    "a small decimal": r"""
0.00001 | 10^{-5}
0.000001 | 10^{-6}
0.00000001 | 10^{-8}
-0.00001 | -10^{-5}
0.00002 | \frac{\sqrt4}{10^5}
0.00003 | \frac{\sqrt{9}}{10^{5}}
0.00005 | 5\cdot 10^{-5}
0.000075 | \frac{3}{4}\cdot 10^{-4}
1e-7 | 10^{-7}
2.5e-6 | \frac{5}{2}\cdot 10^{-6}
0.00001x | 10^{-5}x
0.0000314159265 | \pi\cdot 10^{-5}
0.00001\text{ m} | 10^{-5}\text{ m}
0.00001 | 0.1^5
0.0001 | 0.01^2
20000000000000000.5 | \frac{40000000000000001}{2}
0.00001\sqrt{2} | \frac{\sqrt{2}}{100000}
4.712389\text{ cm} | 1.5\pi\text{ cm}
0.1+0.2 | 0.3
0.0001 | 10^{-4}
0.00025 | \frac{1}{4000}
0.000000001 | 1\times 10^{-9}
3.5\times 10^{-6} | \frac{7}{2000000}
10000000000000000.25 | \frac{40000000000000001}{4}
-0.000001 | -\frac{1}{10^6}
0.00001, 0.00002 | 10^{-5}, 2\cdot 10^{-5}
(0.00001, 1) | (10^{-5}, 1)
0.00001 x^2 | \frac{x^2}{100000}
""",
    "a value that is zero": r"""
0 | \sin(\pi)
0.0 | \sin(\pi)
0 | \cos\frac{\pi}{2}
0 | \cos(90^\circ)
0 | \ln 1
0 | \tan(\pi)
0.0 | \sqrt{2}-\sqrt{2}
0 | \sqrt{2}+\sqrt{3}-\sqrt{5+2\sqrt{6}}
0 | e^{i\pi}+1
0 | x-x
0.0 | 0x
0 | -0
0 | 0.1+0.2-0.3
0 | \log_2 1
\sin\pi | 0
\cos(\frac{3\pi}{2}) | 0
\tan(0) | 0
\sin^2(1)+\cos^2(1)-1 | 0
\sqrt{3+2\sqrt{2}}-1-\sqrt{2} | 0
\ln(e)-1 | 0
0.5x+0.25 | \frac{2x+1}{4}
""",
    "degrees and radians": r"""
90^\circ | \frac{\pi}{2}
45° | \pi/4
180 degrees | \pi
60^{\circ} | \frac{\pi}{3}
30^\circ | \frac{\pi}{6}\text{ rad}
90 degrees | \frac{\pi}{2} radians
22.5^\circ | \frac{\pi}{8}
30^\circ, 60^\circ | \frac{\pi}{3}, \frac{\pi}{6}
x = 45^\circ | \frac{\pi}{4}
-90^\circ | -\frac{\pi}{2}
360^\circ | 2\pi
30^\circ+60^\circ | 90^\circ
30^\circ+60^\circ | \frac{\pi}{2}
90^\circ | \dfrac{\pi}{2}
120^\circ | \frac{2\pi}{3}
120^\circ | \frac{2\pi}{3}\text{ radians}
15^\circ | \pi/12
270 degrees | \frac{3\pi}{2}
2\sin 30^\circ | 1
(f\circ g)(x)=x^2 | x^2
\angle ABC = 45^\circ | 45^\circ
m\angle B = 30^\circ | 30
""",
    "a counted thing": r"""
5 | 5 red apples
12 | 12 wrong answers
3 | 3 negative integers
24 | 24 trailing zeros
10 | 10 months
7 | 7 teeth
6 | 6 deaths
9 | 9 baths
4 | 4 sixth graders
8 | 8 children
5 | 5 people
5 | 5 men
2 | 2 real solutions
42 | 42 total
42 | 42 in total
5 | 5 points
1 | 1 point
5 | 5 marbles left
15 | 15 years old
30 | 30 students per class
3 | 3 pairs of socks
6 | 6 square units
7 | 7 permutations
8 | 8 pavilions
3 | 3 millionaires
5 | 5 prime numbers
12 | 12 inches of rain
5 | 5 feet tall
10 | 10 miles away
5 | 5 pounds of sugar
5 | 5\text{ ways}
4 | 4 stallions
6 | 6 tenants
2 | 2 scores
5 | 5 lengths of rope
3 | 3 false claims
7 | 7 cookies each
5 | 5 miles north
0.5 | 0.5 apple
5 | 5 boys
5 | 5 different ways
5 | 5 possible outcomes
20 | 20 students in total
18 | 18 eggs per day
6 | 6 sheep
3 | 3 boxes of pens
7 | 7 right triangles
120 | 120 arrangements
5 | 5 hours per week
10 | 10 dollars each
2 | 2 complex roots
30 | 30 mm
5 | 5 yuan
16 | 16 square feet
540 | 540 meters
3 | 3 bolts
12 | 12 gallons
7000000 | 7 million
4 | 4 left
25 | 25 years
1 | 1 cat
""",
    "a number and its multiplier": r"""
5000000 | 5 millions
3000 | 3 thousands
500 | 5 hundreds
36 | 3 dozens
2000000000 | 2 billions
500000 | 5 lakh
50000000 | 5 crore
200000 | 2 lakhs
15000000 | 1.5 crores
5 million | 5 millions
$5 million | 5 millions of dollars
3 dozen eggs | 3 dozens of eggs
7\times 10^{15} | 7 quadrillion
5 hundred thousand | 500000
1 billion people | 1000000000 people
2 Million | 2,000,000
""",
    "a letter in a text command": r"""
C | \text{C}
B | \text{(B)}
(B) | \text{(B)}
\text{B} | \text{(B)}
D | \mathrm{D}
x | \text{x}
E | \mathbf{E}
(C) | \textbf{(C)}
A | \textit{A}
\text{(A)} | A.
n | \mathit{n}
B | \mathrm{(B)}
B | \textrm{B}
C | \text{ C }
(D) | (\text{D})
F | \operatorname{F}
B | \mathsf{B}
E | \textnormal{E}
A | {\rm A}
\mathrm{e}^2 | e^2
2\mathrm{i} | 2i
\mathrm{e}^{\mathrm{i}\pi} | -1
5 | \text{5}
5 | \text{x = 5}
A, B | \text{A}, \text{B}
A, C | \text{(A), (C)}
\text{(B)} | \mathrm{B}
\int_0^1 x\,\mathrm{d}x | \frac{1}{2}
\text{A} | A
\text{(E)} | E
\text{(E)} | (\text{E})
\textbf{(E) } | E
\mathrm{(C)} | (C)
\text{k} | k
\text{(a)} | a
\mathrm{N} | N
\boxed{\text{B}} | B
\text{B.} | B
\textbf{(D)}\ | D
\text{A and C} | A, C
\text{II} | II
\frac{5\text{ m}}{\text{s}} | 5 m/s
9.8 \text{ m}\cdot\text{s}^{-2} | 9.8 m/s^2
5 | 5 \text{ units}
\text{(B) } | B
\mathsf{(A)} | \text{A}
\text{F} | F
\text{T} | T
\text{e} | e
\text{i} | i
\mathrm{a}+\mathrm{b} | a+b
\text{I} | I
\text{Q} | Q
\mathrm{sin}(x) | \sin x
\operatorname{sin} x | \sin x
\mathrm{log}_2 8 | 3
\mathrm{gcd}(4,6) | 2
x^{\text{2}} | x^2
\text{12} | 12
\text{12 cm} | 12 cm
12\text{ and }15 | 12, 15
\text{12 and 15} | 12, 15
\text{Yes, } 5 | \text{Yes, } 5
x > 1 \text{ and } x \le 4 | (1,4]
100\text{ cm}^3 | 100 cubic centimeters
\text{ no } | no
""",
    "an extra pair of braces": r"""
42 | {42}
42 | {{42}}
\frac{1}{2} | {\frac12}
x+y | {x+y}
\frac{7}{3} | {7 \over 3}
\frac{7}{3} | 7\over 3
(1,2) | {(1,2)}
1, 2 | {\{1,2\}}
5000 m | {5\text{ km}}
x^2 | {{x^2}}
-3 | {-3}
5 | {x=5}
\sqrt{2} | {\sqrt{2}}
1, 2 | {1},{2}
(1,2) | ({1},{2})
0.5 | {1}/{2}
0.5 | \frac{{1}}{{2}}
x^2 | x^{{2}}
8 | {2}^{3}
\frac{a}{b} | {{\frac{{a}}{{b}}}}
\frac{n(n-1)}{2} | {n \choose 2}
\frac{x+1}{2} | {x+1 \over 2}
0.5 | {50\%}
90 | {90^\circ}
5 | \boxed{{5}}
no | {\text{no}}
5 | {\bf 5}
\sqrt{2} | \sqrt{{2}}
x=5 | {x}={5}
{\frac{3}{4}} | 0.75
{{x^2+1}} | 1+x^2
{{{7}}} | 7
{\pi \over 4} | \frac{\pi}{4}
{\sqrt{3} \over 2} | \frac{\sqrt{3}}{2}
{-1 \over 2} | -0.5
{1\over{2}} | 0.5
2+{3\over4} | 2.75
{[1,2)} | [1,2)
{12}\text{ cm} | 12 cm
{10}^{3} | 1000
\{{1},{2}\} | 1,2
{2\sqrt{3}} | 2\sqrt{3}
x^0.5 | \sqrt{x}
0.333333x | \frac{x}{3}
{7} | 7
{ 7 } | 7
{{1},{2},{3}} | 1,2,3
\frac{{x}^{2}}{{2}} | \frac{x^2}{2}
{x}^{2}+{y}^{2}={1} | x^2+y^2=1
{{{-\frac{1}{2}}}} | -0.5
{\text{(B)}} | B
{5\%} | 0.05
{\$5} | 5
{a \choose b} | \binom{a}{b}
{{a+b} \over {c}} | \frac{a+b}{c}
{x \over y}+{1 \over 2} | \frac{x}{y}+\frac{1}{2}
\boxed{{\frac{1}{2}}} | 0.5
""",
    "a fraction or a bracket of a matrix": r"""
\begin{pmatrix}1/3\\-2\end{pmatrix} | \begin{pmatrix}\frac13\\-2\end{pmatrix}
\begin{pmatrix}1/3\\-2\end{pmatrix} | \begin{pmatrix}0.333333\\-2\end{pmatrix}
\begin{pmatrix}1/3&2/5\\3/4&1/2\end{pmatrix} | \begin{pmatrix}\frac{1}{3}&0.4\\0.75&0.5\end{pmatrix}
\begin{pmatrix}1\\1/2\end{pmatrix} | \begin{pmatrix}1\\0.5\end{pmatrix}
\begin{bmatrix}1/2\\3\end{bmatrix} | \begin{pmatrix}\tfrac12\\3\end{pmatrix}
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \left[\begin{array}{cc}1&2\\3&4\end{array}\right]
\begin{pmatrix}1\\2\end{pmatrix} | \left(\begin{array}{c}1\\2\end{array}\right)
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \left(\begin{matrix}1&2\\3&4\end{matrix}\right)
\begin{pmatrix}1\\2\end{pmatrix} | \bigl(\begin{smallmatrix}1\\2\end{smallmatrix}\bigr)
\begin{pmatrix}-1/2 & 0 \\ 0 & 1\end{pmatrix} | \begin{pmatrix}-0.5&0\\0&1\end{pmatrix}
\begin{pmatrix}1/2 \\[4pt] 3\end{pmatrix} | \begin{pmatrix}\frac{1}{2}\\3\end{pmatrix}
\begin{pmatrix}1\\2\\\end{pmatrix} | \begin{pmatrix}1\\2\end{pmatrix}
\begin{pmatrix}\pi/2\\0\end{pmatrix} | \begin{pmatrix}\frac{\pi}{2}\\0\end{pmatrix}
\begin{pmatrix}x/2\\1\end{pmatrix} | \begin{pmatrix}\frac{x}{2}\\1\end{pmatrix}
\frac{1}{2}\begin{pmatrix}1\\2\end{pmatrix} | \begin{pmatrix}1/2\\1\end{pmatrix}
\begin{pmatrix}10^{-5}\\1\end{pmatrix} | \begin{pmatrix}0.00001\\1\end{pmatrix}
\begin{vmatrix}1/2&0\\0&4\end{vmatrix} | 2
\begin{pmatrix}2/4\\1\end{pmatrix} | \begin{pmatrix}1/2\\1\end{pmatrix}
\begin{bmatrix} 1/2 & -1/3 \\ 0 & 5/7 \end{bmatrix} | \begin{bmatrix} 0.5 & -\frac13 \\ 0 & \frac57 \end{bmatrix}
\begin{pmatrix} -7/5 \\ 1/5 \end{pmatrix} | \begin{pmatrix} -\frac{7}{5} \\ \frac{1}{5} \end{pmatrix}
\left(\begin{array}{r} 1/2 \\ 3 \end{array}\right) | \begin{pmatrix} 0.5 \\ 3 \end{pmatrix}
\begin{pmatrix} 1/3 & 2/3 \end{pmatrix} | \begin{pmatrix} \frac{1}{3} & \frac{2}{3} \end{pmatrix}
\begin{pmatrix} a/2 \\ b/3\end{pmatrix} | \begin{pmatrix} \frac{a}{2} \\ \frac{b}{3}\end{pmatrix}
\left[ \begin{array}{c|c} 1 & 2 \end{array} \right] | \begin{pmatrix}1&2\end{pmatrix}
\begin{Bmatrix}1\\2\end{Bmatrix} | \begin{pmatrix}1\\2\end{pmatrix}
\begin{bmatrix}1\\2\end{bmatrix} | \left[\begin{matrix}1\\2\end{matrix}\right]
\begin{array}{c}42\end{array} | 42
\begin{pmatrix} 3/5 & 4/5 \\ -4/5 & 3/5 \end{pmatrix} | \begin{pmatrix} 0.6 & 0.8 \\ -0.8 & 0.6 \end{pmatrix}
\begin{pmatrix} 1/\sqrt{2} \\ 0 \end{pmatrix} | \begin{pmatrix} \frac{\sqrt{2}}{2} \\ 0 \end{pmatrix}
\begin{bmatrix} 1 \\ 1/2 \\ 1/3 \end{bmatrix} | \begin{bmatrix} 1 \\ \frac12 \\ \frac13 \end{bmatrix}
\begin{pmatrix} 1/2 \cr 3 \end{pmatrix} | \begin{pmatrix} 1/2 \\ 3 \end{pmatrix}
\left(\begin{matrix} 1/3 \\ 2 \end{matrix}\right) | \begin{pmatrix}\frac13\\2\end{pmatrix}
\left[\begin{matrix} 1 & 2 \\ 3 & 4\end{matrix}\right] | \begin{bmatrix} 1 & 2 \\ 3 & 4\end{bmatrix}
\begin{vmatrix}1&2\\3&4\end{vmatrix} | -2
\left|\begin{array}{cc}1&2\\3&4\end{array}\right| | -2
\begin{pmatrix} 10\% \\ 3 \end{pmatrix} | \begin{pmatrix} 10\% \\ 3 \end{pmatrix}
A = \begin{pmatrix} 1/2 \\ 3 \end{pmatrix} | \begin{pmatrix} 0.5 \\ 3 \end{pmatrix}
\begin{pmatrix}-1/2 \\ 1/3\end{pmatrix} | \begin{pmatrix}-.5 \\ \frac{1}{3}\end{pmatrix}
\begin{pmatrix}1/2&0\\0&1/2\end{pmatrix} | \frac12\begin{pmatrix}1&0\\0&1\end{pmatrix}
\begin{pmatrix}2x/3\\1\end{pmatrix} | \begin{pmatrix}\frac{2x}{3}\\1\end{pmatrix}
\begin{pmatrix}(1+x)/2\\1\end{pmatrix} | \begin{pmatrix}\frac{1+x}{2}\\1\end{pmatrix}
""",
    "a difference or a quotient is no date": r"""
10-3 | 7
100-58 | 42
8-3-2 | 3
24/7 | \frac{24}{7}
8/2/2 | 2
1000-1 | 999
20/5 | 4
-5-3 | -8
2024 - 1 | 2023
3/4-1/4 | 0.5
2^{10}-24 | 1000
100-20-30 | 50
7-10 | -3
2023-01-01 | 2023–01–01
15-7 | 8
365-100 | 265
100/4 | 25
1-1 | 0
1/2-1/3 | \frac{1}{6}
12-15 | -3
1/3 | .3333333
5-3 | 2
45-54 | -9
9-4-2 | 3
6/3 | 2
1000-10 | 990
256/16 | 16
10-2-3 | 5
-1-2-3 | -6
""",
    "colours, weights and environments": r"""
42 | \textcolor{red}{42}
42 | \color{red}{42}
42 | {\color{blue} 42}
42 | \color{red}42
0.5 | \textcolor{blue}{\frac{1}{2}}
42 | \colorbox{yellow}{42}
42 | \textcolor[rgb]{1,0,0}{42}
42 | \begin{aligned}42\end{aligned}
5 | \begin{align*}x&=5\end{align*}
5 | \begin{aligned}x&=2+3\\&=5\end{aligned}
42 | \begin{gathered}42\end{gathered}
5 | \begin{equation}x=5\end{equation}
x=1, y=2 | \begin{cases}x=1\\y=2\end{cases}
42 | \boldsymbol{42}
42 | \underline{42}
\frac{1}{2} | \bm{\frac{1}{2}}
x+1 | \mathbf{x+1}
42 | \displaystyle{42}
x+1 | \underline{x+1}
\frac{2}{3} | \textbf{$\frac{2}{3}$}
\sqrt{3} | \color{green}{\sqrt{3}}
\textcolor{blue}{x+1} | 1+x
\color{red} 42 | 42
{\color{red}{42}} | 42
\textcolor{#FF0000}{42} | 42
\begin{align} 42 \end{align} | 42
\begin{split}x=5\end{split} | 5
\begin{aligned}[t] 42 \end{aligned} | 42
\begin{aligned} x &= 1, \\ y &= 2 \end{aligned} | x=1, y=2
\left\{\begin{aligned}x&=1\\y&=2\end{aligned}\right. | x=1, y=2
\left\{ \begin{array}{l} x=1 \\ y=2 \end{array} \right. | x=1, y=2
\textcolor{green}{\checkmark} 5 | \textcolor{green}{\checkmark} 5
\color{blue}{x=5} | 5
\textcolor{red}{\text{B}} | B
\color{red}{\text{no}} | no
\boldsymbol{\frac{1}{2}} | 0.5
\mathbf{12} | 12
\begin{align*} 42 \end{align*} | 42
\begin{aligned} x+1 \end{aligned} | 1+x
\begin{aligned} & 42 \end{aligned} | 42
\begin{aligned} f(x) &= x^2 \\ &= x\cdot x \end{aligned} | x^2
\begin{cases} x = 2 \\ y = 3 \end{cases} | (x,y) = (2,3)
\begin{cases} x & x>0 \\ 0 & x\le 0\end{cases} | \begin{cases} x & x>0 \\ 0 & x\le 0\end{cases}
""",
    "sets and their conditions": r"""
\{1,3,5\} | \lbrace 1,3,5\rbrace
\{1,3\} | \left\lbrace 1,3\right\rbrace
[1,2] | \lbrack 1,2\rbrack
(-2,3] | \{x \mid -2<x\le3\}
(3,\infty) | \{x : x>3\}
(-\infty,1) | \{x \in \mathbb{R} \mid x<1\}
[0,\infty) | \{y \mid y \ge 0\}
(2,\infty) | \left\{x \,\middle|\, x>2\right\}
[0,1] | \{x : 0\le x\le 1\}
t<5 | \{t\mid t<5\}
x \neq 2 | \{x \mid x \neq 2\}
(1,2) | \{x\in\mathbb R : 1<x<2\}
(-\infty,1]\cup[4,\infty) | x\le1\text{ or }x\ge4
(-\infty,-2)\cup(2,\infty) | x<-2 or x>2
(-\infty,0)\cup(1,\infty) | x < 0 \lor x > 1
(-\infty,1)\cup(2,3) | x<1\text{ or }2<x<3
(-\infty,1]\cup[4,\infty) | 4\le x \text{ or } x\le 1
x\le 1\text{ or }x\ge4 | x \in (-\infty,1]\cup[4,\infty)
(-\infty,1]\cup[4,\infty) | \{x \mid x\le1\text{ or }x\ge4\}
(1,4) | x>1 \text{ and } x<4
x\le1\text{ or }x\ge4 | x\le1, x\ge4
x<1 or x>4 | x>4\text{ or }x<1
(-\infty,5)\cup(5,\infty) | x \neq 5
\lbrace x \mid x > 0 \rbrace | (0,\infty)
\{x|x>0\} | (0,\infty)
\{x \in \mathbb{R} \mid x \neq 0\} | x \neq 0
\{ n \mid n < 4 \} | n<4
\{x\mid x=1 \text{ or } x=2\} | \{1,2\}
x<-3 \text{ or } x>3 | (-\infty,-3)\cup(3,\infty)
x\leq -2 \text{ or } x\geq 5 | (-\infty,-2]\cup[5,\infty)
x < 1 \text{, or } x > 2 | (-\infty,1)\cup(2,\infty)
x<1 \vee x>2 | (-\infty,1)\cup(2,\infty)
-1<x<1 \text{ or } x>2 | (-1,1)\cup(2,\infty)
\lbrace 2 \rbrace | \{2\}
\left\lbrace -1, 1 \right\rbrace | \pm 1
\{\, x \mid x \geq 2 \,\} | [2,\infty)
\left\{ x \mid x \in \mathbb{R}, x > 2 \right\} | (2,\infty)
\{x \in \mathbb{R} : x^2 < 4\} | \{x \in \mathbb{R} : x^2 < 4\}
\{x: 1 < x \leq 5\} | (1,5]
\{ (x,y) : x = 1, y = 2\} | \{ (x,y) : x = 1, y = 2\}
x \in (1, 5] | \{x \mid 1 < x \le 5\}
x > 3 \text{ or } x < -3 | x < -3 \text{ or } x > 3
x<0\text{ or }x=3 | (-\infty,0)\cup\{3\}
x=0\text{ or }x\ge 3 | \{0\}\cup[3,\infty)
x\leq 1 \cup x\geq 4 | (-\infty,1]\cup[4,\infty)
x \in (-\infty,1] \text{ or } x\in [4,\infty) | (-\infty,1]\cup[4,\infty)
x \le 1, \text{ or } x \ge 4 | (-\infty,1]\cup[4,\infty)
1<x<3 \text{ or } 5<x<7 | (1,3)\cup(5,7)
x \ne 1 | (-\infty,1)\cup(1,\infty)
\mathbb{R}\setminus\{1\} | x \neq 1
P(A \mid B) = \frac{1}{3} | \frac13
\mathbb{R} \setminus \{0\} | x \ne 0
x<0.00001 | (-\infty, 10^{-5})
\left\{{1},{2}\right\} | \{1,2\}
""",
    "the name of a function": r"""
\frac{x-1}{2} | f^{-1}(x)=\frac{x-1}{2}
x+1 | f^{-1}(x) = x+1
3 | g^{-1}(2)=3
6x | f''(x)=6x
2x | \frac{dy}{dx}=2x
2x | y'=2x
x+y | f(x,y)=x+y
x^2 | (f\circ g)(x)=x^2
\sqrt[3]{x} | h^{-1}(x) = \sqrt[3]{x}
f^{-1}(x)=2x | 2x
\frac{x-1}{2} | f^{-1}(x) = \frac{1}{2}x - \frac{1}{2}
5 | \bar{x} = 5
x = 0.00001 | 10^{-5}
y = 0.00001x | y = \frac{x}{100000}
g^{-1}(x) = 3x - 2 | 3x-2
f^{-1}(5) = 2 | 2
h(t) = -16t^2+64t | 64t-16t^2
f_{1}(x) = 2x | 2x
F'(2) = 7 | 7
\frac{d}{dx}f(x) = 2x | 2x
\frac{d^2y}{dx^2} = 2 | 2
f^{(3)}(0) = 6 | 6
T_n = n^2 | n^2
\frac{\mathrm{d}y}{\mathrm{d}x} = 2x | 2x
f^{-1}(x) = \sqrt{x} | \sqrt{x}
y = f^{-1}(x) = \sqrt{x} | \sqrt{x}
S_{10} = 55 | 55
P(X=2) = 0.5 | 0.5
P(X \ge 2) = 0.5 | \frac{1}{2}
E[X] = 5 | 5
\text{Area} = 5 | 5
\mathrm{Area} = 5\text{ cm}^2 | 5 cm^2
\lim_{x\to 0} \frac{\sin x}{x} = 1 | 1
\log_2 8 = 3 | 3
\det(A) = 5 | 5
\sin\theta = \frac{3}{5} | 0.6
\cos\theta = -\frac{1}{2} | -0.5
\int_0^1 x\,dx = \frac12 | 0.5
\Pr(A) = 0.25 | 1/4
(a,b,c) = (1,2,3) | (1,2,3)
\sin(\theta) = 0.6 | 3/5
x_1 = 2, x_2 = 3 | 2, 3
f(x) = (x+1)^2 | x^2+2x+1
AB = 5\text{ cm} | 5 cm
n(n+1) = 12 | n(n+1)=12
ab = 12 | 12
x^2 = 4 | x^2=4
2x = 4 | 2x=4
k! = 6 | k!=6
\sqrt{x} = 3 | \sqrt{x}=3
\overline{AB} = 5 | 5
\triangle ABC = 6 | 6
V = 12\pi | 12\pi
\text{the area} = 12 | 12
\text{Total cost} = \$15 | 15
""",
    "a sum of units": r"""
2 hours 30 minutes | 150 minutes
5 ft 6 in | 66 inches
1 h 30 min | 90 min
2 hours and 30 minutes | 2.5 hours
1 km 200 m | 1200 m
3 dollars and 50 cents | $3.50
1 minute 15 seconds | 75 seconds
2 weeks 3 days | 17 days
5 pounds 4 ounces | 84 ounces
1 hour, 20 minutes | 80 min
5\text{ ft }6\text{ in} | 66 in
1 day 2 hours 3 minutes | 1563 minutes
5 feet 6 inches | 5.5 feet
1 year 6 months | 18 months
2 hrs 30 mins | 2 hours 30 minutes
1 hour 15 minutes | 75 minutes
3 hours 20 min | 200 min
6 feet 2 inches | 74 inches
6 ft 2 in | 74 in
5 kg 300 g | 5300 g
2 min 5 sec | 125 seconds
4 days 3 hours | 99 hours
2 dollars 25 cents | $2.25
1 gallon 2 quarts | 6 quarts
1\text{ h }30\text{ min} | 1.5\text{ h}
1 \text{ hour and } 30 \text{ minutes} | 90 \text{ minutes}
2 hr 30 min | 150 min
1 hr. 30 min. | 90 minutes
90 seconds | 1 min 30 s
5 ft. 6 in. | 66 in
2 lb 8 oz | 40 oz
3 yards 1 foot | 10 feet
1 m 20 cm | 1.2 m
10 minutes and 30 seconds | 630 s
2.5 hours | 2 hours 30 minutes
\text{2 hours 30 minutes} | 150 minutes
2\ \text{hours}\ 30\ \text{minutes} | 150\ \text{minutes}
1 week, 2 days | 9 days
""",
    "names and typesetting of units": r"""
4 ohms | 4\,\Omega
4 ohm | 4 Ω
4 | 4\,\Omega
3000 ohms | 3 kΩ
20^\circ\text{C} | 20 °C
20^{\circ}\mathrm{C} | 20 degrees Celsius
20^\circ C | 20 °C
68^\circ\text{F} | 68 °F
5\frac{\text{m}}{\text{s}^2} | 5 m/s^2
5\,\frac{\text{km}}{\text{h}} | 5 km/h
5\,\mathrm{m\,s^{-1}} | 5 m/s
5\,\mathrm{m}\cdot\mathrm{s}^{-2} | 5 m/s^2
9.8\text{ m/s}^2 | 9.8 m/s^2
9.8\ \text{m}/\text{s}^2 | 9.8 m/s^2
10\,\frac{\text{miles}}{\text{hour}} | 10 mph
3\,\mathrm{N\cdot m} | 3 N m
5 | 5 psi
5 | 5 atm
10 per cent | 10%
2 gallons | 8 quarts
100 hectares | 1 km^2
3 | 3 tesla
\frac{1}{2}\,\frac{\text{m}}{\text{s}} | 0.5 m/s
2\sqrt{3}\,\frac{\text{m}}{\text{s}} | 2\sqrt{3}\text{ m/s}
100\,\Omega | 100 ohms
5 k\Omega | 5000\,\Omega
25^{\circ}\text{C} | 25^\circ C
25^\circ\mathrm{C} | 25 °C
-40^\circ\text{F} | -40 °F
9.8\,\frac{\mathrm{m}}{\mathrm{s}^2} | 9.8 m/s^2
9.8\,\text{m s}^{-2} | 9.8 m/s^2
3\ \frac{\text{kg}}{\text{m}^3} | 3 kg/m^3
3\ \mathrm{kg\cdot m^{-3}} | 3 kg/m^3
4\ \Omega | 4 Ω
4\ \text{ohms} | 4\,\Omega
1\,\text{M}\Omega | 1000 kΩ
37^\circ\text{C} | 37 degrees C
37^{\circ}{\rm C} | 37 °C
37 ^\circ C | 37^\circ\text{C}
\frac{\text{km}}{\text{h}} | km/h
60\ \frac{\text{mi}}{\text{hr}} | 60 mph
60 \tfrac{\text{mi}}{\text{h}} | 60 mph
5\ \mathrm{m/s^2} | 5\,\text{m}/\text{s}^2
5\ \mathrm{m}/\mathrm{s}^2 | 5 m s^{-2}
5\ \text{N}\cdot\text{m} | 5 N m
\text{N/A} | \text{n/a}
""",
    "a time of day": r"""
3:45 p.m. | 3:45 PM
3:45\text{ p.m.} | 3:45 pm
3:45 p.m. | 3:45pm
3:45 P.M. | 3:45\ \text{PM}
3 p.m. | 3:00 PM
3:45 | 3:45 p.m.
15:45 | 3:45 p.m.
9:05 a.m. | 9:05 AM
12:30 a.m. | 0:30
10:30 a.m. | 10:30 AM
10:30 \text{ a.m.} | 10:30 am
7 PM | 7:00 p.m.
12:05 PM | 12:05 p.m.
2:15\text{ PM} | 2:15 p.m.
3:45 \,\text{p.m.} | 3:45 PM
3:45 P.M | 3:45 p.m.
03:45 PM | 3:45 PM
5{:}30\text{ p.m.} | 5:30 PM
""",
    "words in a text command": r"""
Evelyn | \textit{evelyn}
evelyn | \textit{Evelyn}
Evelyn | \emph{Evelyn}
Evelyn | \textsc{evelyn}
\text{dne} | \text{DNE}
DNE | \text{dne}
DNE | dne
\text{Yes} | yes
\text{Amy} | \text{amy}
\text{no real solution} | No real solution
\textbf{True} | true
\textit{maria} | Maria
\texttt{yes} | Yes
\text{Neither} | neither
\text{undefined} | Undefined
\text{odd} | Odd
\text{DNE} | dne
\mathit{Evelyn} | evelyn
\text{all real numbers} | All real numbers
\textbf{Evelyn} | evelyn
noon | Noon
\textit{Yes} | yes
\textrm{no solution} | no solution
\text{none of these} | None of these
\text{SAS} | \text{sas}
\text{sss} | SSS
\mathtt{hello} | hello
""",
    "a product or a power without a mark": r"""
\sqrt{2}^{2} | 2
2^5-7 | 25
\{ x \in \mathbb{R} : -1 \le x \le 1 \} | [-1,1]
f^{-1}(y)=y^2 | y^2
2^0.5 | \sqrt{2}
\frac{1}{2}^{3} | \frac{1}{8}
1.414214 | \sqrt{2}
3141592.65 | 10^6\pi
2.718281828x | ex
2\binom{5}{2} | 20
(5)(\frac{1}{2}) | 2.5
3\sqrt{\frac{1}{4}} | 1.5
4\sqrt{\frac{9}{4}} | 6
5\cos\frac{\pi}{3} | 2.5
2\lfloor 2.5\rfloor | 4
2\log_4 2 | 1
3(2)(\frac{1}{3}) | 2
(x+1)(x-1) | x^2-1
2\pi\sqrt{2} | \sqrt{8}\pi
\frac{1}{2}\cdot 3 | 1.5
6\tbinom{4}{2} | 36
\mathbf{(A)} | A
\frac{3}{4}-\frac{1}{4} | 0.5
x-1-2 | x-3
\Bigl\{1,2\Bigr\} | \{1,2\}
x\in\mathbb{R}, x\neq 1 | x \neq 1
(x,y)=(1,2) | (1,2)
{\left(1,2\right)} | (1,2)
f^{-1}\left(x\right) = \sqrt{x} | \sqrt{x}
\sum_{k=1}^{\infty} \frac{1}{k^2} | \frac{\pi^2}{6}
\lim_{n\to\infty} (1+\frac{1}{n})^n | e
""",
    "a quantity of several names, an exact value with its approximation": r"""
25 | m+n = 25
25 | m+n = 12+13 = 25
25 | |AB| = 25
125 | 100m+n=125
25 | AB+BC=25
25 | 25 = m+n
25 | a+b+c = 25
25 | p - q = 25
5 | |z| = 5
5 | |\vec{a}+\vec{b}| = 5
5 | |z_1-z_2| = 5
90^\circ | \angle A + \angle B = 90^\circ
5 | a_1+a_2 = 5
25 | f(1)+f(2)=25
14 | AB \cdot CD = 14
14 | a^2+b^2=14
\frac{5}{2} | \frac{a}{b}+\frac{b}{a} = \frac{5}{2}
25 | 10a+b = 25
3\sqrt{2} | AB+CD = 3\sqrt{2}
25\text{ cm} | AB+BC = 25
m+n=25 | m+n = 25
2x+3y=6 | 4x+6y=12
\frac{1}{3} | \frac{1}{3} \approx 0.333
2\sqrt{3} | 2\sqrt{3} \approx 3.46
\frac{2}{3} | \frac{2}{3} \approx 0.67
\frac{2}{3} | x = \frac{2}{3} \approx 0.667
\pi | \pi \approx 3.14
2\sqrt{3}\text{ cm} | 2\sqrt{3}\text{ cm} \approx 3.46\text{ cm}
-\sqrt{2} | -\sqrt{2} \approx -1.414
\ln 2 | \ln 2 \approx 0.693
\frac{7}{2} | \frac{7}{2} \approx 3.5
(2n)! | (2n)(2n-1)!
""",
    "statements joined by a sign, degrees of a formula": r"""
p \land q | q \land p
p \wedge q | p \land q
p \land q | p \text{ and } q
p \lor q | q \vee p
p \lor \neg q | \neg q \lor p
1 \text{ or } 2 | 1 \text{ and } 2
x=1 \text{ or } x=2 | x=1 \text{ and } x=2
x=1 \lor x=2 | 1, 2
x = 1 \lor x = 2 | x=1 \text{ or } x=2
(x+5)^\circ | (5+x)^\circ
\left(\frac{180}{\pi}\right)^\circ | 1\text{ rad}
(\frac{45}{2})^\circ | 22.5^\circ
\frac{\pi}{4}^\circ | \left(\frac{\pi}{4}\right)^\circ
\frac{180}{\pi}^\circ | (\frac{360}{2\pi})^\circ
(n+1)!-n! | n\cdot n!
""",
    "words and marks around a number, endless decimals, minutes of arc": r"""
18 | $18$ dollars
18 | \(18\) apples
18 | $18 per day
18 | 18 dollars every day
18 | 18 dollars a week
\frac{1}{2} | $\frac{1}{2}$ cups
7 | 7\text{ sq. units}
7 | 7\text{ cu. units}
7\text{ square cm} | 7\text{ sq. cm}
30.5^\circ | 30^\circ 30'
30.25^\circ | 30^{\circ}15'
45.5^\circ | 45°30′0″
30.5^\circ | 30^\circ 30^{\prime}
\frac{1}{3} | 0.333\ldots
\frac{1}{6} | 0.1666\ldots
\frac{4}{33} | 0.1212\ldots
\frac{2}{3} | 0.666...
\ln 4 | \log_e 4
2\ln 2 | \log_{e} 4
""",
    "a bound of a modulus, a number or a set in words": r"""
(-1,1) | |x|<1
[-2,2] | |x| \le 2
(-\infty,-3)\cup(3,\infty) | |x|>3
-1<x<1 | |x|<1
(-\sqrt{2},\sqrt{2}) | |t| < \sqrt{2}
5 | \text{five}
3 | \text{three}
3 | three
23 | \text{twenty-three}
0 | \text{zero}
105 | \text{one hundred and five}
40 | forty
\mathbb{R} | \text{all real numbers}
(-\infty,\infty) | \text{all reals}
\mathbb{R} | \text{the set of real numbers}
\emptyset | \text{the empty set}
\text{ellipse} | \text{an ellipse}
\text{circle} | \text{the circle}
""",
}

REJECTED = {
    "another object in a notation that looks alike": r"""
(2,1) | y=2, x=1
(2,1) | x=1, y=2
(2,1) | x=2, x=1
5:3 | 3\colon 5
5:3 | \text{3 to 5}
\langle 1,2,3\rangle | (3, 2, 1)
4 | 3 \pmod{7}
7 | 3 \pmod{7}
\frac{\pi}{2}+k\pi, k\in\mathbb{Z} | \frac{\pi}{3} + n\pi,\ n \in \mathbb{Z}
\frac{\pi}{2}+2k\pi, k\in\mathbb{Z} | \frac{\pi}{2} + n\pi,\ n \in \mathbb{Z}
k\pi, k\in\mathbb{Z} | m\pi, m \in \mathbb{R}
""",
    "other words that begin alike": r"""
\text{Yes} | \text{No, the series diverges}
\text{Yes} | \text{Yes and no}
\text{Yes} | \text{Yes, but only for positive numbers}
\text{infinitely many} | \text{no solutions}
\text{March 5} | March 6th
\text{March 5} | \text{5 May}
""",
    "a whole number of any size": r"""
2^{1000} | 2^{1000}-1
2^{2024}-2 | 2^{2024}
100! | 100!+1
50! | 50!+1
3^{100} | 3^{100}+1
3^{200} | 3^{200}+1
10^{100} | 10^{100}+1
7^{100} | 7^{100}+7^{50}
\frac{3^{2025}-1}{2} | \frac{3^{2025}+1}{2}
2025\cdot2^{2024}+1 | 2025\cdot2^{2024}
\binom{2024}{1012} | \binom{2024}{1012}+1
2^{1000} | 2^{1000}+2^{500}
-2^{500} | 1-2^{500}
2^{5000} | 2^{5000}+1
2024! | 2024!-1
\frac{1}{2^{1000}} | \frac{1}{2^{1000}-1}
10^{50}\sqrt{2} | 10^{50}\sqrt{2}+1
\sum_{k=0}^{200} 2^k | 2^{201}
1000000000000000000000000000000000000000000000001 | 10^{48}
2^{200} | 1.606938044258990275541962092\times 10^{60}
\frac{10^{2024}-1}{3} | \frac{10^{2024}}{3}
2^{127}-1 | 2^{127}
2^{607}-1 | 2^{607}+1
2023^{2024} | 2024^{2023}
(50!)^2 | (50!)^2+1
\frac{100!}{2^{97}} | \frac{100!}{2^{97}}+1
\binom{2000}{1000} | \binom{2000}{999}
10^{80} | 10^{80}-1
2^{100}\cdot 3^{100} | 6^{100}+1
12345678901234567890123456789012345678901234567890 | 12345678901234567890123456789012345678901234567891
\sqrt{2^{1001}} | \sqrt{2^{1001}+1}
\log_2(2^{300}+1) | 300
\sum_{k=0}^{2000} 2^k | 2^{2001}
""",
    "a small value is neither zero nor another": r"""
0.00002 | 2\cdot e-5
20000000000000000.5 | 2\cdot e+16
0.00001 | e-5
0.00001 | 1\cdot e-05
0.00001 | 10^{-6}
0.0 | \frac{1}{\binom{49}{6}}
0.0 | \left(\frac{1}{6}\right)^{10}
0.0 | 2^{-30}
0.0 | \frac{1}{2^{20}}
0.0 | e^{-20}
0.0 | \sin(10^{-7})
0.0 | \frac{1}{30!}
0.0 | \frac{\pi}{10^8}
0.00 | 10^{-7}\pi
0.0 | 1.6\times10^{-19}\sqrt{2}
0.0 | 1\times10^{-9}x
0 | 1.6\times10^{-19}\sqrt{2}
1.0 | 1-\left(\frac16\right)^{10}
0.00001 | 0
10^{-20} | 0.0
10^{-20} | 2\cdot10^{-20}
0.000000001x | 0
0.00003 | \frac{\pi}{10^5}
2^{20} | 1048576.5
10^{-10}\pi | 0.000000000314
10^{-9}x | 10^{-8}x
1.5\cdot 10^{-7}\pi | 1.6\cdot 10^{-7}\pi
-0.0000001\pi | 0.0000001\pi
2^{1000000} | 2^{1000000}+1
0.00005 | 5e-5x
0.00001 | 1e-6
0.000030 | 3\cdot e-05
10000000000000000.25 | 10^{16}
0.0000001 | \frac{\pi}{10^{8}}
0.0 | \frac{1}{2^{100}}
0.000 | 3\cdot 10^{-10}\sqrt{5}
(0.0, 1) | (10^{-9}\pi, 1)
1.0 | \cos(10^{-6})
x+1.0 | x+1+10^{-9}
0.0 | \ln(1+10^{-12})
\sin(3) | 0
\frac{1}{\sin\pi} | 0
0.5x+0.25 | \frac{2x+1}{3}
x+0.0000001 | x
""",
    "degrees are no other number": r"""
90^\circ | \frac{\pi}{3}
90^\circ | \pi
90^\circ | 1.5707963
90 | \frac{\pi}{2}
\pi | 180
90^\circ | \frac{\pi}{2}\text{ cm}
45^\circ, 60^\circ | \frac{\pi}{3}, \frac{\pi}{6}
30^\circ+60^\circ | 60^\circ
120^\circ | \frac{\pi}{3}
""",
    "a word that is a number, or part of one": r"""
5 | 5 billions
5 | 5 crore
5 | 5 lakh
5 | 5 thousandths
5 | 5 eighths
3 | 3 sixteenths
5 | 5 point seven
5 | 5 hundred
5 | 5 hundreds
5 | 5 tens
5 | 5 googol
5 | 5 myriad
5 | 5 gross
5 | 5 score
5 | 5 milliard
5 | 5 millones
5 | 5 zillion
5 | 5 kharab
5 | 5 eighth
5 | 5 sixteenth inches
5 | 5 twelfths
5 | 5 twentieths
5 | 5 millionths
5 | 5 halves
5 | 5 quarters
5 | 5 and a half
5 | 5 thirds
5 | 5 seventy
5 | 5 twelve
5 | 5 million two hundred
5 | 5 parts per million
5 | 5 per thousand
5 | 5 dollars per hundred
5 | 5 mega
0.3 | 0.3 repeating
0.3 | 0.3 recurring
5 | 5 degrees below zero
5 | 5 out of seven
5 | 5 in six
5 | 5 to one
5 | 5 double
5 | 5 twice
5 | 5 threefold
""",
    "an operator in words": r"""
5 | 5 divided by two
5 | 5 choose two
5 | 5 raised to ten
5 | 5 modulo seven
2 | 2 remainder three
5 | 5 imaginary
5 | 5 reciprocal
5 | 5 minus two
5 | 5 added to x
5 | 5 subtracted from x
5 | 5 multiplied by x
5 | 5 square
5 | 5 squared
5 | 5 cubed
5 | 5 exponent two
5 | 5 factorial
5 | 5 factorials
5 | 5 negated
5 | 5 inverted
5 | 5 inverse
5 | 5 doubled
5 | 5 halved
5 | 5 tripled
5 | 5 conjugate
5 | 5 logarithm
5 | 5 epsilon
5 | 5 binary
5 | 5 hexadecimal
5 | 5 equals x
5 | 5 increased by x
5 | 5 decreased by x
5 | 5 modulus x
5 | 5 divides x
5 | 5 multiples of ten
5 | 5 permute two
""",
    "a relation in words": r"""
5 | 5 below zero
5 | 5 or more
5 | 5 apples at least
5 | 5 apples at most
5 | 5 greater than x
5 | 5 smaller than x
5 | 5 higher than x
5 | 5 minimum
5 | 5 maximum
5 | 5 upwards
5 | 5 apples and up
5 | 5 beyond
5 | 5 exceeding
5 | 5 fewer than x
5 | 5 underneath
""",
    "a denial, a hedge or an alternative": r"""
5 | 5 negative
5 | 5 otherwise six
5 | 5 otherwise
5 | 5 versus seven
5 | 5 wrong
5 | 5 incorrect
5 | 5 incorrectly
5 | 5 false
5 | 5 never
5 | 5 apples is wrong
5 | 5 apples or pears
5 | 5 apples not
5 | 5 maybe
5 | 5 perhaps
5 | 5 probably
5 | 5 possibly
5 | 5 presumably
5 | 5 likely
5 | 5 unlikely
5 | 5 supposedly
5 | 5 allegedly
5 | 5 guess
5 | 5 km though unsure
5 | 5 alternatively six
5 | 5 instead
5 | 5 else
5 | 5 except x
5 | 5 unless x
5 | 5 assuming x
5 | 5 apples cannot
5 | 5 invalid
5 | 5 undefined
5 | 5 infinite
5 | 5 impossible
5 | 5 mistaken
5 | 5 untrue
5 | 5 rejected
5 | 5 excluded
5 | 5 neither
5 | 5 without x
5 | 5 then six
5 | 5 also six
5 | 5 whereas x
""",
    "a multiplier counts": r"""
5 million | 5
5 millions | 5 billions
5000 | 5 millions
3 dozens | 3
5 lakh | 5 crore
5 million | 5 million dollars per day and million
50000 | 5 lakh
""",
    "another letter": r"""
\text{B} | \text{C}
\text{(B)} | \text{(C)}
\text{(B)} | C
\text{x} | y
\text{B} | 8
5 | 5\mathrm{x}
\text{B} | \text{BB}
\text{A} | \text{A}, \text{B}
5\text{ m} | 5\mathrm{m}x
\text{(B)} | \text{not (B)}
\text{(B)} | \text{(A) or (B)}
\mathrm{e}^2 | \mathrm{e}^3
\text{(a)} | b
\text{T} | F
""",
    "braces keep their content": r"""
24 | {42}
12 | {1,2}
x-y | {x+y}
\frac{3}{7} | {7 \over 3}
(2,1) | {(1,2)}
5 | {5}{3}
x^{3} | x^{{2}}
\binom{2}{n} | {n \choose 2}
5 | {\neq 5}
5 | {-5}
""",
    "another matrix": r"""
\begin{pmatrix}1/3\\-2\end{pmatrix} | \begin{pmatrix}\frac13\\2\end{pmatrix}
\begin{pmatrix}1/3\\-2\end{pmatrix} | \begin{pmatrix}0.333\\-2\end{pmatrix}
\begin{pmatrix}1/3\\-2\end{pmatrix} | \begin{pmatrix}1/3&-2\end{pmatrix}
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \left[\begin{array}{cc}1&3\\2&4\end{array}\right]
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \begin{vmatrix}1&2\\3&4\end{vmatrix}
\begin{pmatrix}0\\1\end{pmatrix} | \begin{pmatrix}0.0000001\\1\end{pmatrix}
\begin{pmatrix}1/2\\1\end{pmatrix} | \begin{pmatrix}2\\1\end{pmatrix}
\begin{pmatrix}2^{200}\\1\end{pmatrix} | \begin{pmatrix}2^{200}+1\\1\end{pmatrix}
\begin{pmatrix}1/3\\-2\end{pmatrix} | \begin{pmatrix}1/3\\-3\end{pmatrix}
\begin{pmatrix} 1/2 \\ 3 \end{pmatrix} | \begin{pmatrix} 1/2 \\ -3 \end{pmatrix}
\begin{pmatrix} 1/2 \\ 3 \end{pmatrix} | (1/2, 3, 1)
""",
    "a date, a time or a number with hyphens is not computed": r"""
2023-01-01 | 2021
2023-1-15 | 2007
2023/01/01 | 2023
555-1234 | -679
1-800-555 | -1354
1-800-555-1234 | -2588
1/2/2024 | \frac{1}{4048}
12/25/2023 | \frac{12}{50575}
12-25-2023 | -2036
25-12-2023 | -2010
3/14/23 | \frac{3}{322}
01/02/2024 | \frac{1}{4048}
(555) 123-4567 | 63698
555-867-5309 | -5621
123-45-6789 | -6711
03-14 | -11
03/04 | 0.75
978-3-16-148410-0 | -147451
2019-2020 | -1
1234-5678-9012-3456 | -16912
9:30-10:45 | -65
2023-01-01, 2023-01-02 | 2021, 2020
x = 2023-01-01 | 2021
2023-01-01 | 2023-01-02
2024-02-29 | 1993
12-31-1999 | -2018
31/12/1999 | 0.00129
7/4/1776 | \frac{7}{7104}
1-888-555-0199 | -1641
867-5309 | -4442
06-15 | -9
10-11-12 | -13
1999/12/31 | \frac{1999}{372}
(212) 555-0100 | 117760
12:30-14:00 | 0
9/11/2001 | 0.000409
2000-2024 | -24
2023-12-25 | 1986
25.12.2023 | 25
10/10/2020 | 0.000495
2024/1/1 | 2024
555-0123 | 432
(800) 555-1234 | 446000
+1-800-555-1234 | -2588
1.800.555.1234 | 1
10:15-11:45 | -41
2001-09-11T08:46 | 1981
11/22/63 | \frac{1}{126}
1-2-2003 | -2004
999-99-9999 | -9099
1-866-732-4672 | -6269
""",
    "another answer under typesetting": r"""
42 | \textcolor{red}{24}
42 | \color{42}{24}
5 | \begin{aligned}x&=2+3\\&=6\end{aligned}
5 | \begin{aligned}x&=5\\y&=6\end{aligned}
x=1, y=2 | \begin{cases}x=1\\y=3\end{cases}
42 | \underline{42}, 43
\{1,3,5\} | \lbrace 1,3,6\rbrace
""",
    "another set": r"""
(-2,3] | \{x \mid -2<x<3\}
(3,\infty) | \{x : x\ge 3\}
(-\infty,1) | \{x \in \mathbb{Z} \mid x<1\}
\{x : x>3\} | \{x : x<3\}
\{1,3\} | \{x \mid 1<x<3\}
3 | \{x : x>3\}
(-\infty,1)\cup(4,\infty) | x\le1\text{ or }x\ge4
[1,4] | x\le1\text{ or }x\ge4
x>1\text{ or }x<4 | (1,4)
x>1\text{ and }x<4 | x>1\text{ or }x<4
(-\infty,1]\cup[4,\infty) | x\le1\text{ or }y\ge4
(-\infty,1]\cup[4,\infty) | x\le1
1, 4 | x\le1\text{ or }x\ge4
(-\infty,5)\cup(6,\infty) | x \neq 5
x<1 \text{ or } x>2 | (1,2)
x<1 \text{ or } x>2 | (-\infty,1]\cup(2,\infty)
x<1 \text{ or } x>2 | \mathbb{R}
\{x \mid x > 2\} | [2,\infty)
\{x \mid x > 2\} | \{2\}
x > 1 \text{ or } x \le 4 | (1,4]
\mathbb{R} \setminus \{0\} | \mathbb{R}
\mathbb{R} \setminus \{0\} | x \ne 1
""",
    "another function": r"""
\frac{x-1}{2} | f^{-1}(x)=\frac{x+1}{2}
5 | x^{-1}=5
\frac{1}{2x} | f^{-1}(x)=2x
6x | f''(x)=6
2x | \frac{dy}{dx}=2
\sin x = 1 | 2
""",
    "another sum of units": r"""
2 hours 30 minutes | 2.3 hours
2 hours 30 minutes | 230 minutes
2 hours 30 minutes | 2 hours
2 hours 30 minutes | 30 minutes
2 hours 30 minutes | 2
5 ft 6 in | 56 in
5 ft 6 in | 5.6 ft
5 ft 6 in | 5 ft 7 in
2 hours 30 kilometers | 2 hours 30 minutes
1 h 30 min | 130 min
3 dollars and 50 cents | $3.05
2 hours or 30 minutes | 2.5 hours
1 hour 15 minutes | 1.15 hours
6 feet 2 inches | 62 inches
6 feet 2 inches | 6.2 feet
2 hours 30 minutes | 2:30 pm
5 ft 6 in | 5.5 m
""",
    "another unit": r"""
4 ohms | 4 volts
4\,\Omega | 4 kΩ
20^\circ\text{C} | 20^\circ\text{F}
20^\circ\text{C} | 20 K
20^\circ\text{C} | 20^\circ
5\frac{\text{m}}{\text{s}^2} | 5\frac{\text{m}}{\text{s}}
5\,\mathrm{m\,s^{-1}} | 5\,\mathrm{m\,s}
2 gallons | 2 quarts
10 per cent | 10 cents
3 tesla | 3 henry
""",
    "another time of day": r"""
3:45 a.m. | 3:45 p.m.
3:45 p.m. | 3:54 p.m.
3:45 p.m. | 345
15:45 | 3:45 a.m.
3 p.m. | 3 a.m.
3:45 p.m. | 4:45 p.m.
12:30 a.m. | 12:30 p.m.
10:30 a.m. | 10:30 p.m.
7 PM | 8 PM
""",
    "other words": r"""
\textit{Evelyn} | Angela
\text{dne} | \text{one}
\text{Amy} | \text{may}
\text{Yes} | \text{No}
\text{DNE} | 0
""",
    "another product or power": r"""
F_{100} | F_{101}
9^{9^9} | 9^{9^9}+1
1.0 | 1-2^{-40}
\sqrt{2}^{2} | \sqrt{22}
\sin(\pi) | 1
\frac{1}{\sin\pi} | 5
3141592 | 10^6\pi
2\binom{5}{2} | 12
555 1234 | 5551234
2023-W05 | 2018
(x,y)=(1,2) | (2,1)
""",
    "a word that is no counted thing": r"""
5 | 5 quintillions
5 | 5 trillion
5 | 5 nonillion
5 | 5 baker's dozen
5 | 5 ninths
5 | 5 elevenths
5 | 5 dot seven
5 | 5 comma five
5 | 5 permille
5 | 5 per mille
5 | 5 basis points
5 | 5 under zero
5 | 5 less than zero
5 | 5 to the seventh
5 | 5 tetrated
5 | 5 rooted
5 | 5 mod three
5 | 5 carry one
5 | 5 cross two
5 | 5 by two
5 | 5 upon two
5 | 5 complex
5 | 5 flipped
5 | 5 backwards
5 | 5 nope
5 | 5 isn't
5 | 5 oops
5 | 5 sorry six
5 | 5 actually six
5 | 5 scratch that
5 | 5 disputed
5 | 5 questionable
5 | 5 followed by two
5 | 5 roughly
5 | 5 almost
5 | 5 give or take
5 | 5 against seven
5 | 5 nearly
5 | 5 mistake
5 | 5 erroneous
5 | 5 i think
5 | 5 hypothetically
5 | 5 squared plus one
5 | 5 tenths
5 | 5 fortnights ago or so
5 | 5 upside down
5 | 5 complement
5 | 5 plus
5 | 5 vs six
5 | 5 radicals
5 | 5 transpose
5 | 5 derivative
5 | 5 integral
5 | 5 unbounded
5 | 5 nothing
5 | 5 both
5 | 5 either
5 | 5 sextillion
5 | 5 hundred million
5 | 5 bn
5 | 5 K of
5 | 5 wrong answer
5 | 5 incorrect result
5 | 5 false statement
5 | 5 negative value
5 | 5 apples wrong
5 | 5 dollars or less
5 | 5 dollars minimum
5 | 5 km maybe
5 | 5 km below
""",
    "an equation to be solved, a curve, an approximation that does not agree": r"""
25 | x^2=25
25 | 2x=25
25 | x+1=25
25 | x^2+x=25
25 | |x|=25
25 | |x-1|=25
6 | 2x+3y=6
25 | x^2+y^2=25
25 | x+y = 25
3 | x+y=3
25 | a+b+1=25
25 | \sin x+\cos x=25
25 | 2x+3x = 25
25 | 3AB=25
25 | m+n=26
25 | m+n=12+12=25
25 | m+n=p
\frac{1}{3} | \frac{1}{3} \approx 0.34
2\sqrt{3} | 2\sqrt{3} \approx 3.56
\sqrt{3} | \sqrt{2} \approx 1.73
\frac{1}{3} | 0.333
(2n)!! | (2n)!
n!! | n!
""",
    "statements joined by another sign, degrees of pi, factorials of factorials": r"""
p \land q | p \lor q
p \wedge q | p \vee q
p \text{ and } q | p \text{ or } q
p \land q | p \text{ or } q
\neg p \land q | \neg p \lor q
x=1 \land y=2 | x=1 \lor y=2
p \land q \lor r | p \lor q \land r
A \text{ and } B | A \text{ or } B
45^\circ | \frac{\pi}{4}^\circ
45^\circ | \left(\frac{\pi}{4}\right)^{\circ}
180^\circ | \pi^\circ
180^\circ | (\pi)^\circ
\frac{\pi}{4} | \left(\frac{\pi}{4}\right)^\circ
\pi | \pi^\circ
360^\circ | 2\pi^\circ
\sin x | \sin x^\circ
60^\circ | \frac{\pi}{3}^{\circ}
((2n)!)! | (2n)!
(n!)! | n!
""",
    "another word, mark or endless decimal": r"""
30.3^\circ | 30^\circ 30'
0.333 | 0.333\ldots
\frac{1}{3} | 0.3331\ldots
\ln 4 | \log_2 4
18 | $18$ or 20
\$18 | $18 per day
\frac{3}{10} | 0.333\ldots
\pi | 3.14\ldots
7 | 7 sq. minus 2 units
""",
    "another bound, number or set in words": r"""
(-1,1) | |x|>1
(-1,1) | |x| \le 1
(0,1) | |x|<1
5 | \text{fifth}
5 | \text{fifty}
5 | \text{five or six}
\mathbb{R} | \text{all rational numbers}
\mathbb{R} | \text{all integers}
5 | \text{five hundred}
\text{ellipse} | \text{a parabola}
""",
}


def awkward_cases() -> list[Case]:
    """Return every case of the tables."""
    return read_cases(("equal", EQUAL), ("rejected", REJECTED))
