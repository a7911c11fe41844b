import type { Context } from "hono";
import { html, raw } from "hono/html";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { AnswerLink } from "../../../auth/answer-link.ts";
import type { PermissionOption, PermissionSummary } from "../../../protocol/permission.ts";
import { hiddenNotice, type PermissionDetail } from "../../../protocol/permission-details.ts";
import { visibleLine, visibleText } from "../../../protocol/visible-text.ts";

/**
 * The pages behind an answer link. Texts of the agent are escaped, and the Content-Security-Policy forbids scripts,
 * frames and external resources.
 */

type Content = { title: string; body: ReturnType<typeof html> };

/** Asks the reader to confirm the option that the link chooses. */
export function questionPage(
  link: AnswerLink,
  permission: PermissionSummary,
  option: PermissionOption,
): Content {
  const { tone, means } = meaningOf(option);
  const hidden = hiddenNotice(permission.details);
  return {
    title: "Permission request",
    body: html`
      <p class="eyebrow">An agent asks for permission</p>
      <h1>${line(nameOf(permission))}</h1>
      <dl>
        ${permission.kind !== null && html`<dt>Kind</dt><dd>${line(permission.kind)}</dd>`}
        <dt>Session</dt><dd>${line(permission.sessionTitle ?? link.session)}</dd>
        <dt>Workspace</dt><dd>${line(permission.workspace)}</dd>
      </dl>
      ${permission.details.filter((detail) => !isInHead(detail, permission)).map(detailBlock)}
      ${hidden !== undefined && html`<p class="means always">${hidden}</p>`}
      <form method="post">
        ${means && html`<p class="means ${tone}">${means}</p>`}
        <button class="${tone}">${line(option.name ?? option.optionId)}</button>
      </form>
      <p class="small">
        You answer in the name of <strong>${line(link.by)}</strong>. The link works once, until
        ${minuteOf(link.expires)}.
      </p>`,
  };
}

export function answeredPage(permission: PermissionSummary, option: PermissionOption): Content {
  const { tone, done } = meaningOf(option);
  return {
    title: done,
    body: html`
      <p class="eyebrow ${tone}">${done}</p>
      <h1>${line(nameOf(permission))}</h1>
      <p>The agent was told: <strong>${line(option.name ?? option.optionId)}</strong>.</p>
      <p class="small">You can close this page.</p>`,
  };
}

export function refusalPage(status: number, message: string): Content {
  const title = status === 410 ? "This request is closed" : "This link is not valid";
  return {
    title,
    body: html`
      <h1>${title}</h1>
      <p>${message}.</p>
      <p class="small">Nothing was changed.</p>`,
  };
}

export function page(
  c: Context,
  { title, body }: Content,
  status: ContentfulStatusCode = 200,
): Response | Promise<Response> {
  const nonce = crypto.randomUUID();
  c.header(
    "Content-Security-Policy",
    `default-src 'none'; style-src 'nonce-${nonce}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
  );
  return c.html(
    html`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="robots" content="noindex, nofollow">
    <meta name="format-detection" content="telephone=no, date=no, address=no, email=no">
    <title>${title}</title>
    <style nonce="${nonce}">${STYLE}</style>
  </head>
  <body>
    <main>${body}
    </main>
  </body>
</html>
`,
    status,
  );
}

/** Whether the head of the page shows the whole detail already. */
function isInHead(
  { name, text, hiddenChars }: PermissionDetail,
  { title, kind }: PermissionSummary,
): boolean {
  const head = name === "title" ? title : name === "kind" ? kind : null;
  return hiddenChars === 0 && head !== null && text === visibleText(head).text;
}

/** Text of the agent within a line: marked, and isolated from the direction of the text around it. */
function line(text: string): ReturnType<typeof html> {
  return html`<bdi>${visibleLine(text)}</bdi>`;
}

/** The text is marked already. Each line is isolated, so that none reorders another. */
function detailBlock({ name, text, hiddenChars }: PermissionDetail): ReturnType<typeof html> {
  const lines = text.split("\n").map((one) => html`<bdi>${one}</bdi>\n`);
  const cut = hiddenChars > 0 && html`<p class="small">… and ${hiddenChars} more characters</p>`;
  return html`<figure><figcaption>${line(name)}</figcaption><pre>${lines}</pre>${cut}</figure>`;
}

function nameOf({ title }: PermissionSummary): string {
  return title ?? "An action without a title";
}

/** The agent chooses an option's name freely. The page also says what the option does, which follows from its kind. */
function meaningOf({ kind }: PermissionOption): { tone: string; means: string | null; done: string } {
  switch (kind) {
    case "allow_once":
      return { tone: "allow", means: "Allows this once.", done: "Allowed" };
    case "allow_always":
      return { tone: "allow always", means: "Allows this always, not only once.", done: "Allowed always" };
    case "reject_once":
      return { tone: "deny", means: "Denies this once.", done: "Denied" };
    case "reject_always":
      return { tone: "deny always", means: "Denies this always, not only once.", done: "Denied always" };
    default:
      return { tone: "other", means: null, done: "Answered" };
  }
}

function minuteOf(seconds: number): string {
  return `${new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

const STYLE = raw(`
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
  .small { margin: 1.25rem 0 0; font-size: .8125rem; color: var(--muted); }
`);
