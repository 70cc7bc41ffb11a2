// The playground: talk to an agent, attach files, compare two agents or models side by side, keep a case for an
// evaluation.
import { html, useEffect, useRef, useState } from "../html.js";
import { attempt, get, post, request } from "../api.js";
import { follow } from "../event_stream.js";
import { bytes, cost, count, Status } from "../format.js";
import { Empty, useResource } from "../resource.js";
import { link, route, setQuery } from "../router.js";
import { RunModel } from "../run_model.js";
import { Conversation } from "../parts/conversation.js";
import { may, toast } from "../state.js";

const MAX_TURNS = 200;

// One conversation on one thread: its turns are runs, each with a model of its own.
class Lane {
  constructor(agent, modelPlan, threadId, changed) {
    Object.assign(this, { agent, modelPlan, threadId, changed, turns: [], stops: [], busy: false });
  }

  async say(input, parameters) {
    this.busy = true;
    this.changed();
    const body = {
      input,
      ...(this.threadId ? { threadId: this.threadId } : {}),
      ...(this.agent ? { agent: this.agent } : {}),
      ...(this.modelPlan ? { modelPlan: this.modelPlan } : {}),
      ...(Object.keys(parameters).length ? { parameters } : {}),
    };
    const run = await attempt(() => post("/api/runs", body));
    if (!run) {
      this.busy = false;
      this.changed();
      return;
    }
    this.threadId = run.threadId;
    const model = new RunModel(run.id);
    this.turns = [...this.turns, { run, model }].slice(-MAX_TURNS);
    const accept = (events) => {
      for (const event of events) if (model.owns(event)) model.apply(event);
      if (model.done) this.busy = false;
      this.changed();
      return !model.done;
    };
    const first = await get(`/api/runs/${run.id}/events`, { limit: 1 });
    this.stops.push(follow(run.threadId, (first.items[0]?.seq ?? 1) - 1, accept));
  }

  stop() {
    for (const stop of this.stops) stop();
  }

  // All turns as one conversation.
  get model() {
    const items = this.turns.flatMap((turn) => turn.model.items);
    const usage = { inputTokens: 0, outputTokens: 0, costUsd: 0 };
    for (const turn of this.turns) for (const name of Object.keys(usage)) usage[name] += turn.model.usage[name];
    return { items, usage };
  }
}

export function Page() {
  const { query } = route.value;
  const agents = useResource(() => get("/api/agents"));
  const workspace = useResource(() => get("/api/workspace"));
  const [, paint] = useState(0);
  const lanes = useRef([]);
  const [files, setFiles] = useState([]);
  const frame = useRef(0);
  const changed = () => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      paint((one) => one + 1);
    });
  };
  const wanted = [[query.agent ?? "", query.model ?? "", query.thread ?? null]];
  if (query.compare) wanted.push([query.agent2 ?? query.agent ?? "", query.model2 ?? "", null]);
  const key = JSON.stringify(wanted);
  useEffect(() => {
    for (const lane of lanes.current) lane.stop();
    lanes.current = wanted.map(([agent, model, thread]) => new Lane(agent, model, thread, changed));
    changed();
    return () => {
      for (const lane of lanes.current) lane.stop();
      cancelAnimationFrame(frame.current);
    };
  }, [key]);
  const names = (agents.value?.items ?? []).map((agent) => agent.name);
  const models = workspace.value?.models ?? [];
  const send = (text, parameters) => {
    const input = files.length
      ? [
          { type: "text", text },
          ...files.map((file) => ({ type: file.mimeType?.startsWith("image/") ? "image" : "file", fileId: file.id })),
        ]
      : text;
    for (const lane of lanes.current) lane.say(input, parameters);
    setFiles([]);
  };
  const busy = lanes.current.some((lane) => lane.busy);
  return html`<div class="page full">
    <div class="page-head"><h1>Playground</h1><div class="actions">
      <button class="button" onClick=${() => setQuery({ compare: query.compare ? "" : "1" })}
          aria-pressed=${query.compare ? "true" : "false"}>${query.compare ? "One conversation" : "Compare"}</button>
      <button class="button" onClick=${() => {
        for (const lane of lanes.current) lane.stop();
        lanes.current = wanted.map(([agent, model]) => new Lane(agent, model, null, changed));
        changed();
      }}>New conversation</button></div></div>
    <div class="lanes">${lanes.current.map((lane, index) => html`<${LaneView} key=${index} lane=${lane} names=${names}
        models=${models} suffix=${index ? "2" : ""} query=${query} />`)}</div>
    <${Composer} send=${send} busy=${busy} files=${files} setFiles=${setFiles} />
  </div>`;
}

function LaneView({ lane, names, models, suffix, query }) {
  const last = lane.turns.at(-1);
  const { model } = lane;
  const pick = (name) => (event) => setQuery({ [`${name}${suffix}`]: event.target.value });
  return html`<section class="card lane" aria-label=${`Conversation${suffix ? " 2" : ""}`}>
    <header><label class="hidden-label" for=${`agent${suffix}`}>Agent</label>
      <select class="input" id=${`agent${suffix}`} value=${query[`agent${suffix}`] ?? ""} onChange=${pick("agent")}>
      <option value="">default agent</option>${names.map((one) => html`<option key=${one} value=${one}>${one}
      </option>`)}</select>
      <label class="hidden-label" for=${`model${suffix}`}>Model</label>
        <select class="input" id=${`model${suffix}`} value=${query[`model${suffix}`] ?? ""} onChange=${pick("model")}>
        <option value="">the agent's model</option>${models.map((one) => html`<option key=${one} value=${one}>${one}
        </option>`)}</select>
      ${last && html`<${Status} value=${last.model.status} />
        <a class="small" href=${link("runs", last.run.id)}>open run</a>`}
      <span class="grow"></span><span class="small muted">
        ${count(model.usage.inputTokens + model.usage.outputTokens)} tokens · ${cost(model.usage.costUsd)}</span>
      ${last?.model.done && may("runs:write") && html`<${SaveCase} run=${last.run} />`}</header>
    ${lane.turns.length ? html`<${Conversation} model=${model} threadId=${lane.threadId} follow=${true} />` :
      html`<${Empty} title="Say something">
      <p>Each message is a run: recorded, resumable, and in the list of runs. ${lane.threadId ?
      "This conversation continues a fork." : ""}</p></${Empty}>`}
  </section>`;
}

function Composer({ send, busy, files, setFiles }) {
  const [text, setText] = useState("");
  const [temperature, setTemperature] = useState("");
  const [maxTokens, setMaxTokens] = useState("");
  const submit = (event) => {
    event?.preventDefault();
    if (!text.trim()) return;
    send(text, {
      ...(temperature !== "" ? { temperature: Number(temperature) } : {}),
      ...(maxTokens !== "" ? { maxTokens: Number(maxTokens) } : {}),
    });
    setText("");
  };
  const upload = async (event) => {
    for (const file of event.target.files) {
      const answer = await attempt(() =>
        request("POST", "/api/files", {
          query: { name: file.name },
          raw: file,
          headers: { "content-type": file.type || "application/octet-stream" },
        }),
      );
      if (answer) {
        const made = await answer.json();
        setFiles((known) => [...known, made]);
      }
    }
    event.target.value = "";
  };
  return html`<form class="card" onSubmit=${submit} aria-label="Message"><div class="composer">
    <label class="hidden-label" for="say">Message</label>
    <textarea id="say" class="input" data-search value=${text} onInput=${(event) => setText(event.target.value)}
        placeholder="Message…  Enter sends, Shift+Enter breaks the line" rows="1"
      onKeyDown=${(event) => {
        if (event.key === "Enter" && !event.shiftKey) submit(event);
      }}></textarea>
    <button class="button primary" disabled=${!text.trim() || busy}>Send</button></div>
    <div class="composer"><label class="button small">Attach<input class="hidden-label" type="file" multiple
        onChange=${upload} /></label>
      ${files.map((file) => html`<span class="chip" key=${file.id}>${file.name} ${bytes(file.size ?? 0)}
        <button type="button" class="button small plain" aria-label=${`Remove ${file.name}`} onClick=${() =>
        setFiles(files.filter((one) => one !== file))}>×</button></span>`)}
      <span class="grow"></span>
      <label class="row small muted">Temperature <input class="input" type="number" min="0" max="2" step="0.1"
          size="4" value=${temperature} onInput=${(event) => setTemperature(event.target.value)} /></label>
      <label class="row small muted">Max tokens <input class="input" type="number" min="1" max="100000"
          value=${maxTokens} onInput=${(event) => setMaxTokens(event.target.value)} /></label></div></form>`;
}

function SaveCase({ run }) {
  const save = async () => {
    const name = "playground";
    const fresh = await get(`/api/runs/${run.id}`);
    const sets = await get("/api/datasets", { limit: 1000 });
    const known = sets.items.some((one) => one.name === name)
      ? await get(`/api/datasets/${name}/cases`, { limit: 1000 })
      : { items: [] };
    const cases = [
      ...known.items.map(({ input, expected }) => ({
        input,
        ...(expected === null || expected === undefined ? {} : { expected }),
      })),
      { input: fresh.input, expected: fresh.output },
    ];
    if (await attempt(() => post("/api/datasets", { name, cases })))
      toast(`Kept as a case of the dataset ${name}.`, "ok");
  };
  return html`<button class="button small" onClick=${save}>Keep as eval case</button>`;
}
