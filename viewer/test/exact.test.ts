/** Texts are exact, and only what is sure to be a formula or JSON is formatted. */

import { expect, test } from "vitest";

import { boundaryAt, named } from "../src/parts/exact.tsx";
import { formulasIn, jsonBreaks } from "../src/parts/formula_places.ts";
import { itemsOf, rowIn } from "../src/parts/items.ts";
import type { Json } from "../src/source/answers.ts";

test("characters that cannot be seen have names, and others stay", () => {
  expect(named("a\u0000b\r\u202e\u200b\ud800\u00a0\u{e0041}\u2800")).toBe("a⟨NUL⟩b⟨CR⟩⟨U+202E⟩⟨U+200B⟩⟨U+D800⟩⟨U+00A0⟩⟨U+E0041⟩⟨U+2800⟩");
  for (const text of ["plain \t\n text", "👩‍💻 ❤️ 👍🏽 🇨🇭", "é e\u0301 漢字 שלום", "  "]) expect(named(text)).toBe(text);
});

test("no character is cut", () => {
  const text = "a😀b";
  expect([0, 1, 2, 3, 4, 9].map((at) => boundaryAt(text, at))).toEqual([0, 1, 1, 3, 4, 9]);
  expect(boundaryAt("\udc00\udc00", 1)).toBe(1);
});

test("formulas are found between their marks, and money is none", () => {
  const found = (text: string) => formulasIn(text, 99).map(({ start, end }) => text.slice(start, end));
  expect(found(String.raw`\(a\) \[ b \] $$c$$ $x$ $n+1$ $\$5 < x$`)).toEqual([String.raw`\(a\)`, String.raw`\[ b \]`, "$$c$$", "$x$", "$n+1$"]);
  const none = [
    "$5 and $6", "from $5-$6 to $7.50", "US$ 3 and A$ 4", "$HOME and $PATH", "$ x $", "$a\nb$", "$5, or US$", String.raw`\$x\$`,
    String.raw`\\(a\\)`, "`$x$`", "```\n$x$\n```", String.raw`\(`, "$", "$$", "$$$$", String.raw`\[\]`, String.raw`C:\(x86)`,
  ];
  for (const text of none) expect(found(text), text).toEqual([]);
  expect(found(`$x^${"1".repeat(5000)}$`)).toEqual([]);
  expect(formulasIn("$x$ ".repeat(10), 3).length).toBe(3);
});

test("many marks without an end take a time that grows with the text", () => {
  for (const mark of ["\\(", "\\[", "$$x", "$x ", "`", "```", "\\"]) expect(formulasIn(mark.repeat(200_000), 300).length).toBeLessThanOrEqual(300);
});

test("JSON of one line is broken where it is nested, and nowhere else", () => {
  const broken = (text: string) => {
    const breaks = jsonBreaks(text);
    return breaks && breaks.map(({ at }, number) => text.slice(breaks[number - 1]?.at ?? 0, at)).concat(text.slice(breaks.at(-1)?.at ?? 0));
  };
  expect(broken('{"a": [1.0, {}], "b\\"{": "[,]"}')).toEqual(["{", '"a": [', "1.0,", " {}", "],", ' "b\\"{": "[,]"', "}"]);
  for (const text of ["", "text", "3", '"{"', "{torn", '{\n"a": 1}', "[".repeat(100) + "]".repeat(100)]) expect(broken(text), text).toBeNull();
});

test("rows of any form are read or shown as text", () => {
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  for (const text of ["3", "null", "[]", '"x"', "{torn", `{"a": ${deep}}`, deep]) expect(rowIn(text), text.slice(0, 9)).toBeNull();
  expect(rowIn('{"a": [[1]]}')).toEqual({ a: [[1]] });
  const row = { responses_create_params: { input: { odd: 1 } }, response: { output: "text" } };
  expect(itemsOf(row).map(({ pieces }) => pieces[0].kind)).toEqual(["json", "json"]);
});

test("no text of an item is changed or left out", () => {
  const texts = ['{"a":1.0,"a":[ ]}', "\\{2\\} *x*", "12345678901234567890"];
  for (const text of texts) {
    const items = [
      { type: "function_call", name: "f", arguments: text }, { type: "function_call_output", output: text },
      { type: "mcp_call", name: "f", arguments: text, output: text }, { type: "code_interpreter_call", code: text },
      { role: "assistant", content: text, reasoning_content: text }, { role: "assistant", content: [{ type: "refusal", refusal: text }] },
    ];
    for (const { pieces } of itemsOf({ response: { output: items as unknown as Json } })) {
      for (const piece of pieces) expect(piece).toMatchObject({ kind: "text", text });
    }
  }
});
