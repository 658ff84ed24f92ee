/** A button that copies a text as it is in the row. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

export function CopyButton({ text }: { text: string }): VNode {
  const [isCopied, setCopied] = useState(false);
  const copy = () => navigator.clipboard.writeText(text).then(() => setCopied(true), () => setCopied(false));
  return <button type="button" class="more copy" onClick={copy}>{isCopied ? "copied" : "copy"}</button>;
}
