import { EventSourceParserStream } from "eventsource-parser/stream";
import type { QuestionAnswer } from "../../protocol/question.ts";
import type {
  AnsweredQuestion,
  QuestionLink,
  QuestionList,
  QuestionRequest,
} from "../../protocol/question-rest.ts";
import type { ReindexProgress } from "../../protocol/reindex.ts";
import type {
  AnswerLinks,
  CreatedShare,
  CreatedWebhook,
  ImportedSession,
  PermissionList,
  PermissionRequest,
  SessionList,
  SessionView,
  ShareList,
  WebhookInfo,
  WebhookList,
  WorkspaceList,
  WorkspaceView,
} from "../../protocol/rest.ts";
import type { CreatedRevocation, RevocationList } from "../../protocol/rest-tenant.ts";
import type { SecurityReport } from "../../protocol/security-report.ts";
import type { ArchiveFilter, ChangedSession, SessionChange } from "../../protocol/session-change.ts";
import { CliError, describeError, EXIT } from "../cli-error.ts";
import { refusalError } from "./refusal-error.ts";
import type { Target } from "./target.ts";

const TIMEOUT_MS = 30_000;
const RETRY_MIN_MS = 250;
const RETRY_MAX_MS = 10_000;

/** The gateway's REST API. Every failure becomes a `CliError` with a message and an exit code. */
export class ApiClient {
  readonly #target: Target;

  constructor(target: Target) {
    this.#target = target;
  }

  async sessions(limit: number, cursor?: string, archived?: ArchiveFilter) {
    const filter = { ...(cursor && { cursor }), ...(archived && { archived }) };
    const query = new URLSearchParams({ limit: String(limit), ...filter });
    return this.#json<SessionList>(`/api/sessions?${query}`);
  }

  session(id: string): Promise<SessionView> {
    return this.#json(`/api/sessions/${encodeURIComponent(id)}`);
  }

  changeSession(id: string, change: SessionChange): Promise<ChangedSession> {
    const body = JSON.stringify(change);
    return this.#json(`/api/sessions/${encodeURIComponent(id)}`, { method: "PATCH", body });
  }

  reindex(workspace: string | undefined): Promise<ReindexProgress> {
    return this.#json("/api/admin/reindex", { method: "POST", body: JSON.stringify({ workspace }) });
  }

  reindexProgress(workspace: string | undefined): Promise<ReindexProgress> {
    const query = workspace === undefined ? "" : `?${new URLSearchParams({ workspace })}`;
    return this.#json(`/api/admin/reindex${query}`);
  }

  async permissions() {
    return this.#json<PermissionList>("/api/permissions?limit=200");
  }

  permission(id: string): Promise<PermissionRequest> {
    return this.#json(`/api/permissions/${encodeURIComponent(id)}`);
  }

  answer(id: string, optionId: string): Promise<unknown> {
    const body = JSON.stringify({ optionId });
    return this.#json(`/api/permissions/${encodeURIComponent(id)}`, { method: "POST", body });
  }

  /** `expiresIn` is in seconds. */
  answerLinks(id: string, expiresIn: number): Promise<AnswerLinks> {
    const body = JSON.stringify({ expiresIn });
    return this.#json(`/api/permissions/${encodeURIComponent(id)}/links`, { method: "POST", body });
  }

  questions(): Promise<QuestionList> {
    return this.#json("/api/questions?limit=200");
  }

  question(id: string): Promise<QuestionRequest> {
    return this.#json(`/api/questions/${encodeURIComponent(id)}`);
  }

  answerQuestion(id: string, answer: QuestionAnswer): Promise<AnsweredQuestion> {
    const body = JSON.stringify(answer);
    return this.#json(`/api/questions/${encodeURIComponent(id)}`, { method: "POST", body });
  }

  /** `expiresIn` is in seconds. */
  questionLink(id: string, expiresIn: number): Promise<QuestionLink> {
    const body = JSON.stringify({ expiresIn });
    return this.#json(`/api/questions/${encodeURIComponent(id)}/links`, { method: "POST", body });
  }

  /** `expiresIn` is in seconds. */
  share(session: string, expiresIn: number, redact: boolean): Promise<CreatedShare> {
    const order = { session, expiresIn, ...(redact && { redact }) };
    return this.#json("/api/shares", { method: "POST", body: JSON.stringify(order) });
  }

  security(): Promise<SecurityReport> {
    return this.#json("/api/security");
  }

  shares(): Promise<ShareList> {
    return this.#json("/api/shares");
  }

  async unshare(id: string): Promise<void> {
    await this.request(`/api/shares/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  revocations(): Promise<RevocationList> {
    return this.#json("/api/revocations");
  }

  revoke(order: object): Promise<CreatedRevocation> {
    return this.#json("/api/revocations", { method: "POST", body: JSON.stringify(order) });
  }

  async liftRevocation(id: string): Promise<void> {
    await this.request(`/api/revocations/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  async workspaces(limit: number, cursor?: string) {
    const query = new URLSearchParams({ limit: String(limit), ...(cursor && { cursor }) });
    return this.#json<WorkspaceList>(`/api/workspaces?${query}`);
  }

  workspace(id: string): Promise<WorkspaceView> {
    return this.#json(`/api/workspaces/${encodeURIComponent(id)}`);
  }

  setWorkspace(id: string, settings: unknown): Promise<WorkspaceView> {
    const body = JSON.stringify(settings);
    return this.#json(`/api/workspaces/${encodeURIComponent(id)}`, { method: "PUT", body });
  }

  webhooks(workspace: string): Promise<WebhookList> {
    return this.#json(webhooksPath(workspace));
  }

  addWebhook(
    workspace: string,
    order: { url: string; events?: string[] | undefined; links?: boolean | undefined },
  ): Promise<CreatedWebhook> {
    return this.#json(webhooksPath(workspace), { method: "POST", body: JSON.stringify(order) });
  }

  async removeWebhook(workspace: string, id: string): Promise<void> {
    await this.request(webhooksPath(workspace, id), { method: "DELETE" });
  }

  /** Makes the bearer of the token the webhook's maker. */
  adoptWebhook(workspace: string, id: string): Promise<WebhookInfo> {
    return this.#json(`${webhooksPath(workspace, id)}/adopt`, { method: "POST" });
  }

  async testWebhook(workspace: string, id: string): Promise<void> {
    await this.request(`${webhooksPath(workspace, id)}/test`, { method: "POST" });
  }

  export(id: string, format: string): Promise<Response> {
    const path = `/api/sessions/${encodeURIComponent(id)}/export?format=${format}`;
    return this.request(path, {}, { timeout: false });
  }

  async import(archive: Blob, query: Record<string, string>): Promise<ImportedSession> {
    const path = `/api/sessions/import?${new URLSearchParams(query)}`;
    const response = await this.request(path, { method: "POST", body: archive }, { timeout: false });
    return (await response.json()) as ImportedSession;
  }

  /** The log after a sequence number, and then as it grows. A lost stream continues where it ended. */
  async *events(
    id: string,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<{ seq: number; line: string }> {
    const path = `/api/sessions/${encodeURIComponent(id)}/events`;
    let last = after;
    let delay = RETRY_MIN_MS;
    let begun = false;
    while (!signal.aborted) {
      try {
        const headers = { accept: "text/event-stream", "last-event-id": String(last) };
        const { body } = await this.request(path, { headers, signal }, { timeout: false });
        begun = true;
        for await (const { id: seq, data } of parseEvents(body as ReadableStream<Uint8Array>)) {
          last = Number(seq);
          delay = RETRY_MIN_MS;
          yield { seq: last, line: data };
        }
      } catch (error) {
        if (signal.aborted) return;
        const lost = !(error instanceof CliError) || error.code === EXIT.unreachable;
        if (!begun || !lost) throw error;
      }
      await pause(delay, signal);
      delay = Math.min(2 * delay, RETRY_MAX_MS);
    }
  }

  /**
   * A refused token is retried once with a fresh one, because a token command may have a newer token. `timeout: false`
   * is for responses that may take any time, such as streams and archives.
   */
  async request(path: string, init: RequestInit = {}, { timeout = true } = {}): Promise<Response> {
    const first = await this.#fetch(path, init, timeout, await this.#target.token());
    const response =
      first.status === 401
        ? await this.#fetch(path, init, timeout, await this.#target.token({ fresh: true }))
        : first;
    if (response.ok) return response;
    throw refusalError(response.status, await response.text().catch(() => ""));
  }

  async #json<T>(path: string, init?: RequestInit): Promise<T> {
    const response = await this.request(path, init);
    try {
      return (await response.json()) as T;
    } catch (error) {
      throw new CliError(`the response of ${this.#target.url} is not JSON`, EXIT.error, { cause: error });
    }
  }

  async #fetch(path: string, init: RequestInit, timeout: boolean, token: string): Promise<Response> {
    const { url } = this.#target;
    const headers = { authorization: `Bearer ${token}`, ...(init.headers as Record<string, string>) };
    const signal = timeout ? AbortSignal.timeout(TIMEOUT_MS) : (init.signal ?? null);
    try {
      return await fetch(`${url}${path}`, { ...init, headers, signal });
    } catch (error) {
      throw new CliError(`${url} cannot be reached: ${describeError(error)}`, EXIT.unreachable, {
        cause: error,
      });
    }
  }
}

function webhooksPath(workspace: string, id?: string): string {
  const path = `/api/workspaces/${encodeURIComponent(workspace)}/webhooks`;
  return id === undefined ? path : `${path}/${encodeURIComponent(id)}`;
}

function parseEvents(body: ReadableStream<Uint8Array>) {
  const text = new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>;
  return body.pipeThrough(text).pipeThrough(new EventSourceParserStream());
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}
