/** The choice between texts as they were sampled and formatted ones. */

import type { VNode } from "preact";

import { changeFormatted, formatted } from "../state/formatted.ts";
import { useKeys } from "../state/keys.ts";
import { setterProblem } from "./math.tsx";

export function FormattedSwitch(): VNode {
  useKeys([{ key: "m", help: "Texts as sampled, or formatted", act: changeFormatted }], []);
  return (
    <>
      <button type="button" aria-pressed={formatted.value} onClick={changeFormatted} title="Set formulas and indent JSON (m)">
        Formatted
      </button>
      {formatted.value && setterProblem.value && <span class="bad">{setterProblem.value}</span>}
    </>
  );
}
