/** The items of a rollout: its input and its output, in order. Items far from the view are not made. */

import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";

import { plural } from "../format.ts";
import type { Json, JsonObject } from "../source/answers.ts";
import { secondsByItem } from "./call_seconds.ts";
import { FormattedSwitch } from "./formatted_switch.tsx";
import { ItemView } from "./item.tsx";
import { isObject, itemsOf, type Item } from "./items.ts";
import { JsonTree } from "./json_tree.tsx";
import { Lazy } from "./lazy.tsx";
import { LongText } from "./long_text.tsx";
import { Empty } from "./notices.tsx";
import { replayedItems } from "./replayed.ts";
import { useKeys } from "../state/keys.ts";

const FIRST = 12;
const FOLDED = 34;

export function Transcript({ row }: { row: JsonObject }): VNode {
  const items = useMemo(() => itemsOf(row), [row]);
  const seconds = useMemo(() => secondsByItem(row), [row]);
  const replayed = useMemo(() => replayedItems(row), [row]);
  const inputs = items.length - seconds.length;
  const [unfolded, setUnfolded] = useState<boolean | null>(null);
  useKeys(
    [{ key: "e", help: "Unfold or fold all items", act: () => setUnfolded((current) => current !== true) }],
    [],
  );
  return (
    <div class="transcript">
      <p class="choices"><FormattedSwitch /></p>
      <Request row={row} />
      {!items.length && <Empty>The rollout has no items.</Empty>}
      {items.map((item, at) => (
        <Lazy key={`${at} ${unfolded}`} height={estimate(item)} now={at < FIRST}>
          {() => <ItemView item={item} unfolded={unfolded} seconds={seconds[at - inputs] ?? null} isReplayed={replayed[at - inputs] ?? false} />}
        </Lazy>
      ))}
    </div>
  );
}

/** A guess at the height of an item in pixels. */
function estimate(item: Item): number {
  return item.isFolded ? FOLDED : Math.min(1200, FOLDED + 20 + item.size / 4);
}

function Request({ row }: { row: JsonObject }): VNode {
  const request = isObject(row.responses_create_params) ? row.responses_create_params : {};
  const { input: _input, instructions, tools, ...others } = request;
  const tool = Array.isArray(tools) ? tools : [];
  const settings: JsonObject = { ...others };
  if (instructions && typeof instructions !== "string") settings.instructions = instructions;
  if (tools && !Array.isArray(tools)) settings.tools = tools;
  return (
    <>
      {typeof instructions === "string" && instructions && (
        <section class="item role-system">
          <header>instructions</header>
          <LongText text={instructions} />
        </section>
      )}
      {tool.length > 0 && (
        <details class="item folded">
          <summary>{plural(tool.length, "tool")}: <span class="muted">{tool.map(nameOf).join(", ").slice(0, 200)}</span></summary>
          <JsonTree value={tool} open={1} />
        </details>
      )}
      {Object.keys(settings).length > 0 && (
        <details class="item folded">
          <summary>settings: <span class="muted">{Object.keys(settings).join(", ")}</span></summary>
          <JsonTree value={settings} open={1} />
        </details>
      )}
    </>
  );
}

function nameOf(tool: Json): string {
  const { name, type } = isObject(tool) ? tool : {};
  return String(name ?? type ?? "tool");
}
