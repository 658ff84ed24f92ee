/**
 * The language of filters:
 *
 *     reward<1 agent:swe* tokens>=4k -outcome:failed,truncated "permission denied"
 *
 * Every term has to hold. `name<number` compares (`<` `<=` `>` `>=` `=` `!=`; 4k is 4,000 and 2M is 2,000,000; a time
 * in UTC such as 2026-05-01 or 2026-05-01T18:30 is its seconds since 1970).
 * `name:label` compares labels, where `*` stands for any text and a comma separates alternatives; with a column of
 * numbers it compares numbers. `none` is the absence of a value. `-` before a term negates it. Other words, and texts
 * in quotes, are looked for in the rows themselves.
 */

export type Comparison = "<" | "<=" | ">" | ">=" | "=" | "!=" | ":";

export interface ColumnTerm {
  kind: "column";
  name: string;
  comparison: Comparison;
  values: string[];
  negated: boolean;
  at: number;
  length: number;
}

export interface Problem {
  /** The position in the text of the filter, and the number of characters there. */
  at: number;
  length: number;
  message: string;
}

export interface Query {
  terms: ColumnTerm[];
  texts: string[];
  problems: Problem[];
}

/** Short names, and the columns that they mean. */
export const ALIASES: Record<string, string> = {
  env: "agent",
  end: "end_reason",
  time: "seconds",
  at: "created_at",
  policy: "policy_version",
  s: "seconds",
  tokens: "total_tokens",
  calls: "tool_calls",
  k: "rollout",
};

const TERM = /^(-?)([\p{L}_][\p{L}\p{N}_./@-]*)(<=|>=|!=|<|>|=|:)/u;
const TIME = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?)?$/;
const SCALES: Record<string, number> = { k: 1e3, K: 1e3, m: 1e6, M: 1e6, g: 1e9, G: 1e9 };

/** Parse a number such as 12, -0.5, 1e-3, 4k or 2M, or a time in UTC as seconds; undefined for other texts. */
export function parseNumber(text: string): number | undefined {
  if (text === "true" || text === "false") return Number(text === "true");
  if (TIME.test(text)) return secondsAt(text);
  const match = /^([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([kKmMgG]?)$/.exec(text);
  if (!match) return undefined;
  return Number(match[1].replaceAll("_", "")) * (SCALES[match[2]] ?? 1);
}

function secondsAt(text: string): number | undefined {
  const date = new Date(text.length === 10 ? `${text}T00:00Z` : `${text}Z`);
  // A browser takes the 30th of February for a day in March.
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? date.getTime() / 1000 : undefined;
}

/** Split a filter into its terms. Problems say where they lie; the other terms are still given. */
export function parseQuery(text: string): Query {
  const query: Query = { terms: [], texts: [], problems: [] };
  let at = 0;
  while (at < text.length) {
    if (/\s/.test(text[at])) at += 1;
    else at = readTerm(text, at, query);
  }
  return query;
}

function readTerm(text: string, at: number, query: Query): number {
  const match = TERM.exec(text.slice(at));
  if (!match) {
    const word = readWord(text, at, query);
    if (word.text) query.texts.push(word.text);
    return word.end;
  }
  const values: string[] = [];
  let end = at + match[0].length;
  do {
    const word = readWord(text, text[end] === "," ? end + 1 : end, query, ",");
    values.push(word.text);
    end = word.end;
  } while (text[end] === ",");
  const [, minus, name, comparison] = match;
  const length = end - at;
  if (values.includes("")) {
    query.problems.push({ at, length, message: `A value is missing after "${name}${comparison}".` });
  } else {
    const column = Object.hasOwn(ALIASES, name) ? ALIASES[name] : name;
    query.terms.push({
      kind: "column", name: column, comparison: comparison as Comparison, values, negated: minus === "-", at, length,
    });
  }
  return end;
}

/** Read a word, or a text in quotes, up to a space or a character of `stops`. */
function readWord(text: string, at: number, query: Query, stops = ""): { text: string; end: number } {
  if (text[at] === '"') {
    let content = "";
    for (let end = at + 1; end < text.length; end++) {
      if (text[end] === '"') return { text: content, end: end + 1 };
      if (text[end] === "\\" && end + 1 < text.length) end += 1;
      content += text[end];
    }
    query.problems.push({ at, length: text.length - at, message: "The quotation mark at the end is missing." });
    return { text: "", end: text.length };
  }
  let end = at;
  while (end < text.length && !/\s/.test(text[end]) && !stops.includes(text[end])) end += 1;
  return { text: text.slice(at, end), end };
}

/** Write a value so that `parseQuery` reads it as one word. */
export function quoted(value: string): string {
  return /^[^\s",]+$/.test(value) && value !== "none" ? value : `"${value.replace(/["\\]/g, "\\$&")}"`;
}
