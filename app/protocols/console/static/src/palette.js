// The command palette (Ctrl+K) and the list of keys (?).
import { html, useEffect, useRef, useState } from "./html.js";
import { get } from "./api.js";
import { go } from "./router.js";
import { helpOpen, paletteOpen, setTheme } from "./state.js";

const SHOWN = 12;

function commandsOf(pages, agents, text) {
  const found = pages.map((page) => ({
    label: `Go to ${page.label}`,
    hint: `g ${page.key}`,
    act: () => go(page.path),
  }));
  found.push({ label: "Failed runs", hint: "filter", act: () => go("runs", { status: "failed" }) });
  found.push({ label: "Waiting runs", hint: "filter", act: () => go("runs", { status: "waiting" }) });
  for (const agent of agents) {
    found.push({
      label: `Talk to ${agent.name}`,
      hint: "playground",
      act: () => go("playground", { agent: agent.name }),
    });
    found.push({ label: `Runs of ${agent.name}`, hint: "filter", act: () => go("runs", { agent: agent.name }) });
  }
  for (const name of ["light", "dark", "auto"])
    found.push({ label: `Theme: ${name}`, hint: "look", act: () => setTheme(name) });
  found.push({
    label: "Keyboard shortcuts",
    hint: "?",
    act: () => {
      helpOpen.value = true;
    },
  });
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fitting = found.filter((one) => words.every((word) => one.label.toLowerCase().includes(word)));
  const typed = text.trim();
  if (typed.startsWith("run_"))
    fitting.unshift({ label: `Open ${typed}`, hint: "run", act: () => go("runs", typed) });
  else if (typed)
    fitting.push({
      label: `Find runs with “${typed}” in their input`,
      hint: "runs",
      act: () => go("runs", { text: typed }),
    });
  return fitting.slice(0, SHOWN);
}

export function Palette({ pages }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const [agents, setAgents] = useState([]);
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current.focus();
    get("/api/agents").then(
      (page) => setAgents(page.items),
      () => {},
    );
    return () => before?.focus?.();
  }, []);
  const commands = commandsOf(pages, agents, text);
  const act = (command) => {
    paletteOpen.value = false;
    command?.act();
  };
  const pressed = (event) => {
    if (event.key === "ArrowDown") setChosen((chosen + 1) % Math.max(1, commands.length));
    else if (event.key === "ArrowUp") setChosen((chosen + commands.length - 1) % Math.max(1, commands.length));
    else if (event.key === "Enter") act(commands[chosen]);
    else if (event.key === "Escape") paletteOpen.value = false;
    else return;
    event.preventDefault();
  };
  return html`<div class="veil" onClick=${(event) => {
    if (event.target === event.currentTarget) paletteOpen.value = false;
  }}>
    <div class="dialog palette" role="dialog" aria-modal="true" aria-label="Command palette" onKeyDown=${pressed}>
      <input ref=${box} value=${text} onInput=${(event) => {
        setText(event.target.value);
        setChosen(0);
      }} placeholder="Go to, find, do…"
        role="combobox" aria-label="Command" aria-expanded="true" aria-controls="commands"
            aria-activedescendant=${commands.length ? `command-${chosen}` : undefined} />
      <ul id="commands" role="listbox" aria-label="Commands">
        ${commands.map(
          (
            one,
            index,
          ) => html`<li key=${one.label} id=${`command-${index}`} role="option" aria-selected=${index === chosen ?
            "true" : "false"}
          onMouseMove=${() => setChosen(index)} onClick=${() => act(one)}>${one.label}<span class="hint">${one.hint}
            </span></li>`,
        )}
      </ul>
    </div>
  </div>`;
}

const KEYS = [
  ["Ctrl K", "command palette"],
  ["/", "filter of the page"],
  ["?", "this list"],
  ["j  k", "next, previous row"],
  ["Enter", "open the row"],
  ["a", "approve (inbox)"],
  ["d", "deny (inbox)"],
  ["[  ]", "one event back, forward (run)"],
  ["Esc", "close, or back to live"],
];

export function Help({ pages }) {
  const close = useRef(null);
  useEffect(() => {
    close.current.focus();
  }, []);
  return html`<div class="veil" onClick=${(event) => {
    if (event.target === event.currentTarget) helpOpen.value = false;
  }}>
    <div class="dialog" role="dialog" aria-modal="true" aria-label="Keyboard shortcuts">
      <header class="row between"><h2>Keyboard shortcuts</h2>
        <button ref=${close} class="button small" onClick=${() => {
        helpOpen.value = false;
      }}>Close</button></header>
      <div class="body"><dl class="facts">
        ${KEYS.map(([key, meaning]) => html`<dt key=${key}><kbd>${key}</kbd></dt><dd>${meaning}</dd>`)}
        ${pages.map((page) => html`<dt key=${page.path}><kbd>g ${page.key}</kbd></dt><dd>${page.label}</dd>`)}
      </dl></div>
    </div>
  </div>`;
}
