import { raw } from "hono/html";

/** The style of the pages behind an answer link. */
export const STYLE = raw(`
  :root {
    --page: #f3f4f6; --card: #fff; --text: #1a1d21; --muted: #5f6873; --line: #e1e4e8;
    --allow: #1a7f4b; --deny: #c4323a; --other: #3a5ccc; --on: #fff;
    --warn: #7a4b00; --warn-page: #fff4dc; --warn-line: #f0cf8a;
  }
  @media (prefers-color-scheme: dark) {
    :root {
      --page: #0f1114; --card: #191c21; --text: #e8eaed; --muted: #9aa4b0; --line: #2c3138;
      --allow: #3fbf7f; --deny: #ff7b7b; --other: #8fa8ff; --on: #0f1114;
      --warn: #ffd27a; --warn-page: #33270f; --warn-line: #5e4818;
    }
  }
  * { box-sizing: border-box; }
  body {
    margin: 0; min-height: 100vh; min-height: 100svh; padding: 1rem;
    display: grid; place-items: center;
    background: var(--page); color: var(--text);
    font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
    -webkit-text-size-adjust: 100%;
  }
  main {
    width: 100%; max-width: 40rem; min-width: 0; padding: 1.5rem;
    background: var(--card); border: 1px solid var(--line); border-radius: 1rem;
  }
  .eyebrow { margin: 0 0 .5rem; font-size: .875rem; font-weight: 600; color: var(--muted); }
  .eyebrow.allow { color: var(--allow); }
  .eyebrow.deny { color: var(--deny); }
  h1 {
    margin: 0 0 1.25rem; font-size: 1.25rem; font-weight: 600; line-height: 1.4;
    white-space: pre-wrap; overflow-wrap: anywhere;
  }
  figure { margin: 0; }
  figcaption { margin: 0 0 .25rem; font-size: .875rem; font-weight: 600; color: var(--muted); }
  pre {
    margin: 0 0 1rem; padding: .625rem .75rem; border: 1px solid var(--line); border-radius: .5rem;
    font: .8125rem/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; direction: ltr;
  }
  dl { display: grid; grid-template-columns: auto 1fr; gap: .375rem 1rem; margin: 0 0 1.5rem; font-size: .9375rem; }
  dt { color: var(--muted); }
  dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
  p { margin: 0 0 1rem; overflow-wrap: anywhere; }
  .means { margin: 0 0 .75rem; }
  .means.always {
    padding: .625rem .875rem; border: 1px solid var(--warn-line); border-radius: .625rem;
    background: var(--warn-page); color: var(--warn); font-weight: 600;
  }
  button {
    width: 100%; min-height: 3.25rem; padding: .75rem 1rem; border: 2px solid var(--tone); border-radius: .75rem;
    background: var(--tone); color: var(--on); cursor: pointer;
    font: inherit; font-size: 1.0625rem; font-weight: 600; overflow-wrap: anywhere;
  }
  button.allow { --tone: var(--allow); }
  button.deny { --tone: var(--deny); background: transparent; color: var(--deny); }
  button.other { --tone: var(--other); }
  button:focus-visible { outline: 3px solid var(--text); outline-offset: 2px; }
  button + button { margin-top: .75rem; }
  fieldset { margin: 0 0 1.25rem; padding: 0; border: 0; min-width: 0; }
  label, legend { display: block; padding: 0; margin: 0 0 .25rem; font-weight: 600; overflow-wrap: anywhere; }
  label.choice { display: flex; gap: .5rem; align-items: baseline; font-weight: 400; }
  .hint { margin: 0 0 .375rem; font-size: .875rem; color: var(--muted); white-space: pre-wrap; }
  .problem { margin: .25rem 0 0; font-size: .875rem; font-weight: 600; color: var(--deny); }
  input:not([type="checkbox"]), select, textarea {
    width: 100%; padding: .625rem .75rem; border: 1px solid var(--muted); border-radius: .5rem;
    background: var(--page); color: var(--text); font: inherit;
  }
  .small { margin: 1.25rem 0 0; font-size: .8125rem; color: var(--muted); }
`);
