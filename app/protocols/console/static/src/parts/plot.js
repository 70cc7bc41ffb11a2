// A plot over time, drawn by uPlot on a canvas; the same figures are in a table for whoever cannot see it.
import { html, useEffect, useRef } from "../html.js";
import { isDark } from "../state.js";

const HEIGHT = 190;
const DAY_S = 86400;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const minute = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
const whole = new Intl.DateTimeFormat(undefined, minute);

// Days where the ticks are days apart, else the time of day, in the reader's zone and way of writing it.
function timeOf(ticks) {
  const words = ticks.length > 1 && ticks[1] - ticks[0] >= DAY_S / 2 ? day : clock;
  return (at) => words.format(at * 1000);
}

const inTotal = (values, format) => `${format(values.reduce((sum, one) => sum + (one ?? 0), 0))} in total`;

export const atLast = (values, format) => `${format(values.findLast((one) => one !== null) ?? null)} at last`;

// `inWords` says a line's values to whoever cannot see them.
export function Plot({ title, times, lines, format = String, inWords = inTotal }) {
  const box = useRef(null);
  const drawn = useRef(null);
  const data = [times, ...lines.map((line) => line.values)];
  const look = isDark.value;
  useEffect(() => {
    let current = true;
    let observer = null;
    import("../../vendor/uplot.js").then(({ default: UPlot }) => {
      if (!current || !box.current) return;
      const ink = getComputedStyle(document.documentElement);
      const axis = {
        stroke: ink.getPropertyValue("--muted"),
        grid: { stroke: ink.getPropertyValue("--line"), width: 1 },
        ticks: { show: false },
      };
      drawn.current = new UPlot(
        {
          width: box.current.clientWidth || 400,
          height: HEIGHT,
          cursor: { y: false, points: { size: 6 } },
          scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
          axes: [
            { ...axis, values: (_, ticks) => ticks.map(timeOf(ticks)) },
            { ...axis, size: 56, values: (_, ticks) => ticks.map(format) },
          ],
          series: [
            { value: (_, at) => (at === null ? "–" : whole.format(at * 1000)) },
            ...lines.map((line) => ({
              label: line.name,
              stroke: line.colour,
              width: 1.8,
              dash: line.dashed ? [6, 4] : undefined,
              fill: line.fill ? `${line.colour}22` : undefined,
              points: { show: line.points ?? false, size: 5 },
              value: (_, value) => (value === null || value === undefined ? "–" : format(value)),
            })),
          ],
        },
        data,
        box.current,
      );
      observer = new ResizeObserver(
        () => box.current && drawn.current?.setSize({ width: box.current.clientWidth, height: HEIGHT }),
      );
      observer.observe(box.current);
    });
    return () => {
      current = false;
      observer?.disconnect();
      drawn.current?.destroy();
      drawn.current = null;
    };
  }, [look, lines.map((line) => line.name).join()]);
  useEffect(() => {
    drawn.current?.setData(data);
  });
  return html`<section class="card" aria-label=${title}><header><h2>${title}</h2></header><div class="body">
    <div class="plot" ref=${box} role="img" aria-label=${`${title}: ${lines.map((line) =>
    `${line.name} ${inWords(line.values, format)}`).join(", ")}`}></div>
    </div></section>`;
}
