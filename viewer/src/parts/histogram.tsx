/** A histogram of a column, as bars. */

import type { VNode } from "preact";

import type { Histogram } from "../columns/facets.ts";
import { number, plural, whole } from "../format.ts";

const WIDTH = 240;
const HEIGHT = 64;

export function HistogramBars({ histogram, title }: { histogram: Histogram; title: string }): VNode {
  const { bounds, counts, missing } = histogram;
  const most = Math.max(...counts);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const bar = WIDTH / counts.length;
  const words = `${title}: ${plural(total, "value")} from ${number(bounds[0])} to ${number(bounds.at(-1))}`;
  return (
    <figure class="histogram">
      <figcaption>{title}</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={words} preserveAspectRatio="none">
        {counts.map((count, at) => {
          const height = count ? Math.max(1.5, (HEIGHT * count) / most) : 0;
          const x = at * bar + (counts.length === 1 ? WIDTH * 0.45 : 0.5);
          const width = counts.length === 1 ? WIDTH * 0.1 : bar - 1;
          return (
            <rect key={at} x={x} y={HEIGHT - height} width={width} height={height}>
              <title>{`${number(bounds[at])} to ${number(bounds[at + 1])}: ${whole(count)}`}</title>
            </rect>
          );
        })}
      </svg>
      <div class="axis">
        <span>{number(bounds[0])}</span>
        {missing > 0 && <span>{whole(missing)} without</span>}
        <span>{number(bounds.at(-1))}</span>
      </div>
    </figure>
  );
}
