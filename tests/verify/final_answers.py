r"""Spellings of a final answer, and the environments that do not read them.

`ANSWER` stands for the answer. Every environment that reads a final answer from free text reads every spelling, except
those that the spelling names: their contract, in their READMEs, asks for another form. `DENIED` are texts that state
no answer or another one.

Other environments have no final answer: documents (structured_outputs, calendar), code and queries (code_gen,
code_repair, text_to_sql), actions (blackjack, text_gymnasium), tool calls (workplace_assistant, the examples),
instructions, and texts that a judge reads whole or by the row's own expression.
"""

from __future__ import annotations

from typing import NamedTuple

MCQA_STRICT, MCQA_BOXED = "mcqa strict_single_letter_boxed", "mcqa lenient_boxed"
MCQA_LINE, MCQA_WORDS, MCQA_ANY = (
    "mcqa lenient_answer_colon", "mcqa lenient_answer_colon_md", "mcqa lenient"
)  # fmt: skip
STRING, STRING_BOXED = "string_match final_answer", "string_match boxed"
MATH, TOOLS, REASONING, GAME = "math_with_judge", "efficient_tool_use", "reasoning_gym", "gymnasium"
READERS = (
    MCQA_STRICT,
    MCQA_BOXED,
    MCQA_LINE,
    MCQA_WORDS,
    MCQA_ANY,
    STRING,
    STRING_BOXED,
    MATH,
    TOOLS,
    REASONING,
    GAME,
)

ONLY_BOXES = frozenset({MCQA_STRICT, MCQA_BOXED, STRING_BOXED})
"""The contract asks for a box."""
ONLY_LINES = frozenset({MCQA_LINE, MCQA_WORDS})
"""The contract asks for "Answer:" or "the answer is"."""
CHOICES = frozenset({MCQA_LINE, MCQA_WORDS, MCQA_ANY, MCQA_STRICT, MCQA_BOXED})
NO_DENIALS = frozenset({GAME})
"""The contract is that the message contains the answer and denies nothing."""
LAST_LINE = frozenset({REASONING})
"""The contract asks for tags. Without them and without a box, a line counts only if it ends the message."""


class Spellings(NamedTuple):
    """Texts, one a paragraph between lines of `---`, and the readers whose contract excludes them."""

    not_read_by: frozenset[str]
    texts: str

    def paragraphs(self) -> list[str]:
        return [text.strip("\n") for text in self.texts.split("\n---\n")]


SPELLINGS = (
    Spellings(ONLY_LINES, r"""
\boxed{ANSWER}
---
So we get $\boxed{ANSWER}$.
---
$$\boxed{ANSWER}$$
---
\[
\boxed{ANSWER}
\]
---
\( \boxed{ANSWER} \)
---
\fbox{ANSWER}
---
\boxed{\text{ANSWER}}
---
\boxed{$ANSWER$}
---
\boxed{\mathbf{ANSWER}}
---
\boxed{
ANSWER
}
---
**\boxed{ANSWER}**
---
It is \boxed{ANSWER} rather than \boxed{9}.
---
### Final result
\boxed{ANSWER}
"""),
    Spellings(ONLY_LINES | NO_DENIALS, r"""
Not \boxed{9}, but \boxed{ANSWER}.
---
It is \boxed{ANSWER}, not \boxed{9}.
"""),
    Spellings(frozenset(), r"""
The final answer is: $\boxed{ANSWER}$
---
The final answer is $\boxed{ANSWER}$.
---
The answer is $\boxed{ANSWER}$. I hope it is correct.
---
The answer is $\boxed{ANSWER}$. I hope the answer is correct.
---
Answer: \boxed{ANSWER}
---
**Answer:** $\boxed{ANSWER}$
---
**Final Answer:** \(\boxed{ANSWER}\)
---
Final Answer: The final answer is $\boxed{ANSWER}$. I hope it is correct.
---
The answer is:
$$
\boxed{ANSWER}
$$
---
The final answer is:

\[
\boxed{ANSWER}
\]
---
**Final Answer**

\[ \boxed{ANSWER} \]
---
Answer: \boxed{
ANSWER
}
---
The answer is \fbox{ANSWER}
---
Answer: $\boxed{\text{ANSWER}}$
"""),
    Spellings(NO_DENIALS, r"""
The answer is \boxed{ANSWER}, not \boxed{9}.
---
The answer is not \boxed{9}. The answer is \boxed{ANSWER}.
"""),
    Spellings(ONLY_BOXES, r"""
Answer: ANSWER
---
answer: ANSWER.
---
ANSWER: ANSWER
---
**Answer:** ANSWER
---
**Answer**: ANSWER
---
**Answer: ANSWER**
---
__Answer:__ ANSWER
---
Answer: **ANSWER**
---
Answer: *ANSWER*
---
Answer: `ANSWER`
---
Answer: "ANSWER"
---
Answer: $ANSWER$
---
Answer: \(ANSWER\).
---
Answer: \text{ANSWER}
---
Answer: <b>ANSWER</b>
---
### Answer: ANSWER
---
- **Answer:** ANSWER
---
> Answer: ANSWER
---
Answer = ANSWER
---
Answer：ANSWER
---
The answer is ANSWER
---
The answer is ANSWER.
---
The answer is: ANSWER
---
The final answer is **ANSWER**.
---
So, the correct answer is ANSWER.
---
Therefore the answer is $ANSWER$.
---
My final answer is: ANSWER
---
Final Answer: ANSWER
---
Final Answer: The final answer is $ANSWER$. I hope it is correct.
---
The answer is ANSWER. I hope it is correct.
---
The answer is ANSWER. I hope this answer is right.
---
The answer to the question is ANSWER.
---
The answer to this problem is: ANSWER
---
The answer should be ANSWER.
---
The answer must be ANSWER.
---
The answer would be ANSWER
---
Answer:
ANSWER
---
**Answer:**

ANSWER
---
**Final Answer**

ANSWER
---
## Final Answer
ANSWER
---
Final answer:
$$
ANSWER
$$
---
Final answer:
```
ANSWER
```
---
Final answer:
```text
ANSWER
```
---
The answer is:
\[
ANSWER
\]
"""),
    Spellings(ONLY_LINES | NO_DENIALS, r"""
\boxed{9} is wrong. It is \boxed{ANSWER}. This is not surprising.
---
\boxed{9}? No, that does not work.

\boxed{ANSWER}, not 9."""),
    Spellings(ONLY_BOXES | NO_DENIALS, r"""
Answer: 9
No, that is wrong.
Answer: ANSWER
"""),
    Spellings(ONLY_BOXES | NO_DENIALS | LAST_LINE, r"""
The answer is ANSWER.
The answer is not 9.
"""),
    Spellings(ONLY_BOXES | ONLY_LINES | NO_DENIALS, r"""
<answer>9</answer> No: <answer>ANSWER</answer>
"""),
    Spellings(ONLY_BOXES | ONLY_LINES, r"""
<answer>ANSWER</answer>
---
<answer> ANSWER </answer>
---
<Answer>ANSWER</Answer>
---
<answer>
ANSWER
</answer>
"""),
    Spellings(ONLY_LINES, r"""
<answer>\boxed{ANSWER}</answer>
---
<answer>$\boxed{ANSWER}$</answer>
"""),
    Spellings(ONLY_BOXES | ONLY_LINES | {REASONING, GAME}, r"""
La réponse est ANSWER.
---
Réponse : ANSWER
---
Die Antwort ist ANSWER.
---
Respuesta: ANSWER
---
La risposta è ANSWER.
---
答案是 ANSWER。
---
答案：ANSWER
---
{"answer": "ANSWER"}
---
```json
{"reasoning": "It follows.", "answer": "ANSWER"}
```
---
\boxed ANSWER
---
**ANSWER**
---
It follows, so it is ANSWER.
"""),
    Spellings(ONLY_BOXES | ONLY_LINES | NO_DENIALS | {REASONING}, r"""
\boxed{9}

Actually, this is incorrect. The final answer is ANSWER.
---
At first one gets \boxed{9}. But that counts each pair twice: **Answer: ANSWER**
---
<answer>9</answer>

Wait, that is wrong. <answer>ANSWER</answer>
---
\boxed{9}

Sorry, that is wrong. It should be ANSWER.
---
Answer: 9

Hmm, I made a mistake. The answer is ANSWER.
---
\boxed{ANSWER}

Since 3 + 4 = 7, the check holds.
---
\boxed{ANSWER}

A common mistake is to forget one. This is incorrect because each one counts.
"""),
    Spellings(CHOICES, r"""
\boxed{Answer: ANSWER}
---
\boxed{\text{The answer is } ANSWER}
---
\boxed{The final answer is: ANSWER}
"""),
    Spellings(ONLY_BOXES | LAST_LINE, r"""
Answer: ANSWER

I hope this helps.
---
The answer is ANSWER.

Let me know if the steps are clear.
"""),
    Spellings(CHOICES | {STRING_BOXED}, r"""
It follows.
#### ANSWER
---
It follows.
A: ANSWER
"""),
)  # fmt: skip
"""Each is read with the answer 42, and, by the readers of choices, with the letter C."""

OPTION_SPELLINGS = Spellings(ONLY_BOXES, r"""
Answer: Option ANSWER
---
The answer is option ANSWER
---
The answer is option (ANSWER).
---
**Answer:** Option ANSWER
---
The correct answer is Option ANSWER.
---
Answer: (ANSWER)
---
Answer: ANSWER)
---
Answer: choice ANSWER
---
The answer is $\boxed{\text{Option ANSWER}}$.
---
Answer: ANSWER (42)
---
Answer: ANSWER) 42
---
The answer is (ANSWER) $42$.
""")  # fmt: skip
"""Spellings of the letter of an option whose text is 42, for the readers of choices."""

DENIED = (
    Spellings(frozenset(), r"""
The answer is not ANSWER.
---
The answer isn't ANSWER.
---
The answer is not \boxed{ANSWER}.
---
It is not $\boxed{ANSWER}$.
---
It can't be \boxed{ANSWER}.
---
It is \boxed{9}, not \boxed{ANSWER}.
---
Answer: 9, not \boxed{ANSWER}
---
\boxed{ANSWER} or \boxed{9}
---
\boxed{9} or \boxed{ANSWER}
---
either $\boxed{9}$ or $\boxed{ANSWER}$
---
Answer: ANSWER or 9
---
Answer:
---
**Final Answer**
---
The answer is clear.
---
The answer is correct.
"""),
    Spellings(NO_DENIALS, r"""
My brother claims that the answer is ANSWER.
---
My lab partner says the answer is ANSWER.
---
Wikipedia claims that the correct answer is ANSWER.
---
Nobody would seriously claim that the answer is ANSWER.
---
According to the forum the answer is ANSWER.
---
For the previous exercise, the answer is ANSWER.
---
If the question is about another year, the answer is ANSWER.
---
It is untrue that the answer is ANSWER.
---
Answer: ANSWER
Answer: 9
---
\boxed{ANSWER} \boxed{9}
---
\boxed{ANSWER} is wrong.
---
\boxed{ANSWER} is not the answer.
---
The answer is \boxed{ANSWER}. No, that is wrong.
---
The answer is \boxed{ANSWER}.
This is incorrect.
---
The wrong answer is \boxed{ANSWER}.
---
The following result is wrong: \boxed{ANSWER}
---
\boxed{ANSWER}? No, that does not work.
---
One might think it is \boxed{ANSWER}, but that is a mistake. I do not know the answer.
---
The answer is \boxed{ANSWER} or more.
---
The answer is at least \boxed{ANSWER}.
---
The answer is less than $\boxed{ANSWER}$.
---
<answer>ANSWER</answer><answer>9</answer>
---
\boxed{ANSWER
---
Answer: ANSWER, 9
"""),
    Spellings(NO_DENIALS | ONLY_BOXES | {REASONING, MCQA_LINE, MCQA_WORDS}, r"""
Answer: ANSWER
Please disregard the above, it is wrong.
---
This is the format: \boxed{ANSWER}. I don't have a result.
---
The answer is ANSWER. I have no answer to this one.
---
$\boxed{ANSWER}$ is what most students write, but it is wrong.
---
Answer: \boxed{ANSWER}

Many say ANSWER, but the answer is 9.
---
\boxed{ANSWER}. That is a lie.
---
<answer>ANSWER</answer>

Actually, this is incorrect.
---
Answer: ANSWER

Sorry, that is wrong. It should be 9.
---
The answer is ANSWER.

Hmm, I made a mistake.
---
The answer is ANSWER.

On reflection, the right value is \boxed{9}.
---
It may be ANSWER.
---
Is it ANSWER?
---
So it is not ANSWER.
---
So it is 9 or ANSWER.
---
Die Antwort ist nicht ANSWER.
---
答案不是 ANSWER。
"""),
)  # fmt: skip
"""No reader reads the answer in these, except those whose contract does."""
