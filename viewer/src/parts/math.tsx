/**
 * Formulas as MathML, which the browser sets without fonts or style sheets of ours. KaTeX is read when the first formula
 * is shown. Formulas come from a model: what KaTeX makes of them is parsed as XML, and only known elements and
 * attributes of it are made.
 */

import { signal } from "@preact/signals";
import { createElement, type ComponentChildren, type VNode } from "preact";

import type katex from "katex";

type Katex = Pick<typeof katex, "renderToString">;

export const setter = signal<Katex | null>(null);
export const setterProblem = signal<string | null>(null);
let isLoading = false;

const ELEMENTS = new Set([
  "math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "msup", "msub", "msubsup", "mfrac", "msqrt", "mroot", "mover",
  "munder", "munderover", "mmultiscripts", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom", "menclose",
]);
const ATTRIBUTES = new Set([
  "display", "mathvariant", "mathcolor", "mathbackground", "mathsize", "stretchy", "fence", "separator", "accent",
  "accentunder", "displaystyle", "scriptlevel", "linethickness", "lspace", "rspace", "width", "height", "depth", "voffset",
  "columnalign", "columnspacing", "columnlines", "rowspacing", "rowlines", "minsize", "maxsize", "notation", "largeop",
  "movablelimits", "symmetric", "form",
]);
const DEEPEST = 200;

/** Read KaTeX once: from the server, or from the element `formulas` of an exported file. */
export function loadSetter(): void {
  if (isLoading) return;
  isLoading = true;
  const script = document.createElement("script");
  const own = document.getElementById("formulas");
  script.onerror = () => (setterProblem.value = "Formulas cannot be set: their program was not read.");
  script.onload = take;
  if (own) script.textContent = own.textContent;
  // Not at the beginning: the page of a notebook has no address that others are relative to.
  else script.src = new URL("../../node_modules/katex/dist/katex.min.js", import.meta.url).href;
  document.head.append(script);
  if (own) take();
}

function take(): void {
  setter.value = (globalThis as { katex?: Katex }).katex ?? null;
  if (!setter.value) setterProblem.value = "Formulas cannot be set: the file does not hold their program.";
}

/** The formula as MathML; null if it is not one. */
export function mathOf(by: Katex, tex: string, isBlock: boolean): VNode | null {
  const limits = { trust: false, strict: "ignore", maxExpand: 200, maxSize: 20, throwOnError: true } as const;
  let markup;
  try {
    markup = by.renderToString(tex, { ...limits, output: "mathml", displayMode: isBlock });
  } catch {
    return null; // not a formula: its source is shown
  }
  const parsed = new DOMParser().parseFromString(markup, "application/xml");
  const math = parsed.getElementsByTagName("math")[0];
  return parsed.getElementsByTagName("parsererror").length || !math ? null : (elementOf(math, 0) as VNode | null);
}

function elementOf(element: Element, depth: number): ComponentChildren {
  if (depth > DEEPEST || element.localName === "annotation") return null;
  const children = [...element.childNodes].map((child) =>
    child instanceof Element ? elementOf(child, depth + 1) : child.textContent,
  );
  if (!ELEMENTS.has(element.localName)) return children; // such as `semantics`
  const known = [...element.attributes].filter(({ name }) => ATTRIBUTES.has(name));
  return createElement(element.localName, Object.fromEntries(known.map(({ name, value }) => [name, value])), ...children);
}
