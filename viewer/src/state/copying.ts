/**
 * Copies of selected texts are what was sampled: the browser would turn spaces into others, and formulas into their
 * letters.
 */

document.addEventListener("copy", (event) => {
  const selection = document.getSelection();
  const text = selection?.rangeCount ? exactText(selection.getRangeAt(0)) : null;
  if (text === null || !event.clipboardData) return;
  event.clipboardData.setData("text/plain", text);
  event.preventDefault();
});

/** The exact texts of a range, one a line; null if it holds anything else. */
function exactText(range: Range): string | null {
  const inside = range.commonAncestorContainer;
  const formula = (inside instanceof Element ? inside : inside.parentElement)?.closest<HTMLElement>("[data-source]");
  if (formula) return formula.dataset.source!;
  const parts = [...document.querySelectorAll(".exact")]
    .filter((element) => range.intersectsNode(element))
    .map((element) => shared(range, element))
    .filter((part) => part.toString());
  const whole = parts.map((part) => part.toString()).join("");
  return whole && whole === range.toString() ? parts.map(sourceOf).join("\n") : null;
}

function shared(range: Range, element: Element): Range {
  const part = document.createRange();
  part.selectNodeContents(element);
  if (range.compareBoundaryPoints(Range.START_TO_START, part) > 0) part.setStart(range.startContainer, range.startOffset);
  if (range.compareBoundaryPoints(Range.END_TO_END, part) < 0) part.setEnd(range.endContainer, range.endOffset);
  return part;
}

function sourceOf(part: Range): string {
  const copy = part.cloneContents();
  for (const formula of copy.querySelectorAll<HTMLElement>("[data-source]")) formula.replaceWith(formula.dataset.source!);
  return copy.textContent;
}
