/** JSON as a tree. Branches are made when they are opened, long lists a hundred entries at a time. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import type { Json } from "../source/answers.ts";
import { Exact } from "./exact.tsx";
import { LongText } from "./long_text.tsx";

const STEP = 100;
const SHORT = 120;

export function JsonTree({ value, open = 1 }: { value: Json; open?: number }): VNode {
  return (
    <div class="json">
      <Node value={value} open={open} />
    </div>
  );
}

function Node({ name, value, open }: { name?: string; value: Json; open: number }): VNode {
  const label = name === undefined ? null : <span class="key"><Exact text={name} />: </span>;
  if (value === null || typeof value !== "object") {
    return (
      <div class="leaf">
        {label}
        <Leaf value={value} />
      </div>
    );
  }
  return <Branch label={label} value={value} open={open} />;
}

function Leaf({ value }: { value: null | boolean | number | string }): VNode {
  if (typeof value !== "string") return <span class="literal">{String(value)}</span>;
  if (value.length <= SHORT && !value.includes("\n")) return <span class="string"><Exact text={JSON.stringify(value)} /></span>;
  return <LongText text={value} />;
}

interface BranchProps {
  label: VNode | null;
  value: Json[] | { [key: string]: Json };
  open: number;
}

function Branch({ label, value, open }: BranchProps): VNode {
  const [isOpen, setOpen] = useState(open > 0);
  const [shown, setShown] = useState(STEP);
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  const size = isList ? `[${entries.length}]` : `{${entries.length}}`;
  if (!entries.length) return <div class="leaf">{label}<span class="literal">{isList ? "[]" : "{}"}</span></div>;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {label}
        <span class="size">{size}</span> {!isOpen && !isList && <span class="size">{entries.slice(0, 4).map(([key]) => key).join(", ")}</span>}
      </summary>
      {isOpen && entries.slice(0, shown).map(([key, entry]) => <Node key={key} name={key} value={entry} open={open - 1} />)}
      {isOpen && entries.length > shown && (
        <button type="button" class="more" onClick={() => setShown(shown + 10 * STEP)}>
          show more of {entries.length}
        </button>
      )}
    </details>
  );
}
