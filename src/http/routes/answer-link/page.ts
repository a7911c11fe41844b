import type { Context } from "hono";
import { html } from "hono/html";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { AnswerLink } from "../../../auth/answer-link.ts";
import type { PermissionOption, PermissionSummary } from "../../../protocol/permission.ts";
import { hiddenNotice, type PermissionDetail } from "../../../protocol/permission-details.ts";
import { visibleLine, visibleText } from "../../../protocol/visible-text.ts";
import { STYLE } from "./style.ts";

/**
 * The pages behind an answer link. Texts of the agent are escaped, and the Content-Security-Policy forbids scripts,
 * frames and external resources.
 */

export type Content = { title: string; body: ReturnType<typeof html> };

/** Asks the reader to confirm the option that the link chooses. */
export function permissionPage(
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
      ${linkNote(link)}`,
  };
}

/** In whose name the bearer answers, and for how long. */
export function linkNote({ by, expires }: AnswerLink): ReturnType<typeof html> {
  return html`<p class="small">
        You answer in the name of <strong>${line(by)}</strong>. The link works once, until ${minuteOf(expires)}.
      </p>`;
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
export function line(text: string): ReturnType<typeof html> {
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
