// Reads Prometheus' text format as far as the page needs it.
const LINE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function samples(said, name) {
  const found = [];
  for (const line of said.split("\n")) {
    if (!line.startsWith(name)) continue;
    const [, called, labels = "", value] = LINE.exec(line) ?? [];
    if (called === name)
      found.push({
        labels: Object.fromEntries([...labels.matchAll(LABEL)].map(([, key, text]) => [key, text])),
        value: Number(value),
      });
  }
  return found;
}

// Calls and errors of each model since the server started.
export function providersOf(said) {
  const totals = new Map();
  for (const { labels, value } of samples(said, "holdfast_model_calls_total")) {
    const name = labels.model;
    const one = totals.get(name) ?? { name, calls: 0, errors: 0 };
    one.calls += value;
    if (labels.outcome !== "completed") one.errors += value;
    totals.set(name, one);
  }
  return [...totals.values()];
}
