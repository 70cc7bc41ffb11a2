// Forms for answers that are more than yes or no: questions, and calls whose outcome nobody knows.
import { html } from "../html.js";

export function QuestionForm({ interrupt, answer }) {
  const questions = interrupt.questions ?? [];
  const submit = (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const answers = Object.fromEntries(
      questions.map((one, index) => [one.id ?? String(index), given.get(one.id ?? String(index))]),
    );
    answer({ answers }, "Answered.");
  };
  return html`<form class="stack" onSubmit=${submit}>
    ${questions.map((one, index) => {
      const name = one.id ?? String(index);
      const options = one.options ?? one.choices ?? [];
      return html`<label class="field" key=${name}><span>
        ${one.question ?? one.text ?? one.prompt ?? one.header ?? name}</span>
        ${
          options.length
            ? html`<select class="input" name=${name}>${options.map((option) => {
                const value = typeof option === "string" ? option : (option.value ?? option.label);
                return html`<option key=${value} value=${value}>
                  ${typeof option === "string" ? option : (option.label ?? value)}</option>`;
              })}</select>`
            : html`<textarea class="input" name=${name} required rows="2"></textarea>`
        }</label>`;
    })}
    <div class="row"><button class="button primary">Answer</button></div></form>`;
}

export function RecoveryForm({ answer }) {
  const submit = (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get("output");
    let output = text;
    try {
      output = JSON.parse(text);
    } catch {
      /* a plain text is an output too */
    }
    answer({ decision: "use", output }, "The output is used.");
  };
  return html`<div class="stack"><p class="notice warn">The server stopped while this call was under way, and the tool
    cannot be repeated safely. Look at the system that it changes, then decide.</p>
    <div class="row wrap"><button class="button primary" onClick=${() => answer({ decision: "retry" },
      "Calls again.")}>Call it again</button><button class="button danger" onClick=${() => answer({ decision:
      "fail" }, "Marked as failed.")}>Mark as failed</button></div>
    <form class="stack tight" onSubmit=${submit}><label class="field"><span>It did happen; its output was</span>
      <textarea class="input mono" name="output" rows="3" required></textarea></label><div class="row">
      <button class="button">Use this output</button></div></form></div>`;
}
