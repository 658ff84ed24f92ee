/** Numbers and times as text. */

const DIGITS = new Intl.NumberFormat("en-US");

export function whole(value: number): string {
  return DIGITS.format(value);
}

/** At most three digits after the point, fewer for large numbers. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return Math.abs(value) < 1e15 ? whole(value) : String(value);
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-3) return value.toExponential(2);
  return value.toFixed(size < 100 ? 3 : 1);
}

/** Seconds of a phase. Less than half a millisecond is 0. */
export function seconds(value: number | null | undefined): string {
  return value !== null && value !== undefined && Math.abs(value) < 0.0005 ? "0" : number(value);
}

/** A mean reward: three digits after the point. */
export function score(value: number | null): string {
  return value !== null && Math.abs(value) < 1000 ? value.toFixed(3) : number(value);
}

/** A difference of scores, with its sign. */
export function signed(value: number | null): string {
  return value !== null && value > 0 ? `+${score(value)}` : score(value);
}

export function percent(value: number | null | undefined): string {
  return value === null || value === undefined || Number.isNaN(value) ? "–" : `${(100 * value).toFixed(1)} %`;
}

export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${unit && count < 100 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

/** The time since a moment, given in seconds since 1970. */
export function ago(moment: number): string {
  if (Number.isNaN(moment)) return "–";
  const seconds = Math.max(0, Date.now() / 1000 - moment);
  if (seconds < 60) return "just now";
  const [count, unit] =
    seconds < 3600 ? [seconds / 60, "minute"] : seconds < 86_400 ? [seconds / 3600, "hour"] : [seconds / 86_400, "day"];
  const whole = Math.floor(count);
  return `${whole} ${unit}${whole === 1 ? "" : "s"} ago`;
}

/** A moment in UTC, given in seconds since 1970, as filters have it. */
export function moment(seconds: number): string {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? number(seconds) : date.toISOString().slice(0, 19);
}

export function plural(count: number, noun: string, several = `${noun}s`): string {
  return `${whole(count)} ${count === 1 ? noun : several}`;
}

/** The first line of a text, cut. */
export function firstLine(text: string, most = 160): string {
  const line = text.trimStart().split("\n", 1)[0];
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

const LEAST_SHARED = 24;

/** A function that cuts what all of the titles begin with, so that tasks with one instruction can be told apart. */
export function withoutBeginning(titles: string[]): (title: string) => string {
  const [first = "", ...others] = new Set(titles);
  let shared = others.length ? first.length : 0;
  for (const other of others) {
    let at = 0;
    while (at < shared && other[at] === first[at]) at += 1;
    shared = at;
  }
  const end = first.lastIndexOf(" ", shared) + 1;
  return (title) => (end >= LEAST_SHARED && title.length > end ? `…${title.slice(end)}` : title);
}

/** A moment as a date and a time in UTC, given as in ISO 8601. */
export function date(text: string | null): string {
  const parsed = new Date(text ?? "");
  return Number.isNaN(parsed.getTime()) ? "–" : parsed.toISOString().slice(0, 16).replace("T", " ");
}
