/** The places of a text that can be formatted: formulas between their marks, and line breaks that JSON lacks. */

export interface FormulaPlace {
  start: number;
  end: number;
  /** The formula without its marks. */
  tex: string;
  isBlock: boolean;
}

const LONGEST = 4000;
/** Code, an escaped character, or the mark of a formula. */
const OPENERS = /```|`|\\[^]|\$\$|\$/g;
const CLOSERS: Record<string, string> = { "```": "```", "`": "`", "\\[": "\\]", "\\(": "\\)", $$: "$$" };

/**
 * The formulas of a text in order, at most `most`: `\(…\)`, `\[…\]`, `$$…$$` and `$…$`. Marks in code are none, and
 * amounts of money are no formulas.
 */
export function formulasIn(text: string, most: number): FormulaPlace[] {
  const found: FormulaPlace[] = [];
  const missing = new Set<string>(); // closers that do not occur any more: each is searched to the end only once
  OPENERS.lastIndex = 0;
  for (let match = OPENERS.exec(text); match && found.length < most; match = OPENERS.exec(text)) {
    const [opener] = match;
    const start = match.index;
    const inside = start + opener.length;
    if (opener === "$") {
      const end = dollarEnd(text, inside);
      if (end < 0) continue;
      found.push({ start, end: end + 1, tex: text.slice(inside, end), isBlock: false });
      OPENERS.lastIndex = end + 1;
      continue;
    }
    const closer = Object.hasOwn(CLOSERS, opener) ? CLOSERS[opener] : null;
    if (!closer || missing.has(closer)) continue;
    const end = text.indexOf(closer, inside);
    if (end < 0) missing.add(closer);
    if (end < 0) continue;
    const isFormula = !opener.startsWith("`");
    if (isFormula && (end - inside > LONGEST || !text.slice(inside, end).trim())) continue;
    const isBlock = opener !== "\\(";
    if (isFormula) found.push({ start, end: end + closer.length, tex: text.slice(inside, end), isBlock });
    OPENERS.lastIndex = end + closer.length;
  }
  return found;
}

/** The place of the `$` that closes a formula; -1 if the text up to the next one reads like money or prose. */
function dollarEnd(text: string, inside: number): number {
  const end = text.indexOf("$", inside);
  if (end <= inside || end - inside > LONGEST) return -1;
  const tex = text.slice(inside, end);
  const isTight = !/^\s|\s$|\n|\\$/.test(tex) && !/[\d$]/.test(text[end + 1] ?? "");
  const isMath = /[\\^_=<>{}]/.test(tex) || !/[A-Za-z]{2}|^[\d.,]+[ ,]/.test(tex);
  return isTight && isMath ? end : -1;
}

const TOKENS = /"(?:[^"\\]|\\[^])*"|[{}[\],]|[^"{}[\],]+/g;
const DEEPEST = 40;
const LARGEST = 1_000_000;

/** The places where a text that is JSON without line breaks is broken into lines; null for other texts. */
export function jsonBreaks(text: string): { at: number; depth: number }[] | null {
  if (!/^\s*[[{]/.test(text) || text.length > LARGEST || text.trim().includes("\n")) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const breaks: { at: number; depth: number }[] = [];
  let depth = 0;
  let before = "";
  for (const { 0: token, index } of text.matchAll(TOKENS)) {
    const isEmpty = before === "{" || before === "[";
    if (!token.trim() && /[\]}]/.test(text[index + token.length] ?? "")) continue; // the break comes before the end
    if (token === "}" || token === "]") {
      depth -= 1;
      if (!isEmpty) breaks.push({ at: index, depth });
    } else if (isEmpty || before === ",") breaks.push({ at: index, depth });
    if (token === "{" || token === "[") depth += 1;
    if (depth > DEEPEST) return null;
    before = token;
  }
  return breaks;
}
