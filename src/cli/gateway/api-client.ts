import { EventSourceParserStream } from "eventsource-parser/stream";
import { CliError, describeError, EXIT } from "../cli-error.ts";
import { refusalError } from "./refusal-error.ts";
import type { Target } from "./target.ts";

export type SessionSummary = {
  sessionId: string;
  workspace: string;
  agent: string;
  cwd: string;
  title: string | null;
  state: string;
  createdAt: string;
  updatedAt: string;
  lastSeq: number;
};

/** The part of `acpx.session.v1` that the command shows to people; `--json` prints the whole document. */
export type Session = {
  acpxRecordId: string;
  agent: { name: string | null };
  workspace: { cwd: string | null; name: string | null };
  lifecycle: { createdAt: string; lastUsedAt: string };
  log: { lastSeq: number };
  state: string;
  title: string | null;
  agentStatus: string;
  host: { name: string; connected: boolean } | null;
  turn: { turnId: string } | null;
  turns: { total: number; recent: TurnSummary[] };
  queue: unknown[];
  pendingPermissions: {
    seq: number;
    title: string | null;
    kind: string | null;
    options?: PermissionOption[];
  }[];
  lastError: unknown;
};

export type TurnSummary = {
  prompt: number;
  status: string;
  stopReason: string | null;
  reason: string | null;
  promptPreview: string;
  replyPreview: string;
};

export type PermissionOption = { optionId: string; name: string; kind: string };

export type Permission = {
  id: string;
  sessionId: string;
  workspace: string;
  title: string | null;
  kind: string | null;
  options: PermissionOption[] | null;
  requestedAt: string;
};

/** A link for each possible answer to one permission request. */
export type AnswerLinks = {
  id: string;
  permission: string;
  expiresAt: string;
  links: { optionId: string; name: string | null; kind: string | null; url: string }[];
};

export type Share = {
  id: string;
  session: string;
  workspace: string;
  by: string;
  at: string;
  expiresAt: string;
  redact: boolean;
};

export type Webhook = {
  id: string;
  url: string;
  events: string[];
  links: boolean;
  createdAt: string;
  waiting: number;
  lastDelivery: { at: string; status: number | null } | null;
  failingSince: string | null;
  dropped: number;
};

export type Agent = {
  id: string;
  name: string;
  default: boolean;
  available: boolean;
  reason: string | null;
  ready: boolean;
  error: string | null;
};
export type Host = {
  name: string;
  state: "connected" | "draining" | "gone";
  root: string;
  version: string;
  connectedAt: string;
  lastSeenAt: string;
  load: { sessions: number; capacity: number };
};
export type Workspace = {
  id: string;
  name: string | null;
  hosts: Host[];
  agents: Agent[];
  policy: unknown;
  git: { branch: string | null; modifiedCount: number } | null;
  /** Null if the workspace has no container. */
  containerState: { state: string; failures: number; reason: string | null } | null;
};

/** A line of a session's log. */
export type LogEvent = { seq: number; at: string; source: string; kind: string; payload: EventPayload };
export type EventPayload = { direction?: "in" | "out"; message?: RpcMessage; stop?: string } & Record<
  string,
  unknown
>;
export type RpcMessage = {
  id?: unknown;
  method?: string;
  params?: Record<string, unknown>;
  result?: unknown;
  error?: { code: number; message: string };
};

const TIMEOUT_MS = 30_000;
const RETRY_MIN_MS = 250;
const RETRY_MAX_MS = 10_000;

/** The gateway's REST API. Every failure becomes a `CliError` with a message and an exit code. */
export class ApiClient {
  readonly #target: Target;

  constructor(target: Target) {
    this.#target = target;
  }

  async sessions(limit: number, cursor?: string) {
    const query = new URLSearchParams({ limit: String(limit), ...(cursor && { cursor }) });
    return this.#json<{ sessions: SessionSummary[]; nextCursor: string | null }>(`/api/sessions?${query}`);
  }

  session(id: string): Promise<Session> {
    return this.#json(`/api/sessions/${encodeURIComponent(id)}`);
  }

  async permissions() {
    return this.#json<{ permissions: Permission[] }>("/api/permissions?limit=200");
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

  /** `expiresIn` is in seconds. */
  share(
    session: string,
    expiresIn: number,
    redact: boolean,
  ): Promise<Share & { token: string; url: string }> {
    const order = { session, expiresIn, ...(redact && { redact }) };
    return this.#json("/api/shares", { method: "POST", body: JSON.stringify(order) });
  }

  shares(): Promise<{ shares: Share[] }> {
    return this.#json("/api/shares");
  }

  async unshare(id: string): Promise<void> {
    await this.request(`/api/shares/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  async workspaces(limit: number, cursor?: string) {
    const query = new URLSearchParams({ limit: String(limit), ...(cursor && { cursor }) });
    return this.#json<{ workspaces: { id: string }[]; nextCursor: string | null }>(
      `/api/workspaces?${query}`,
    );
  }

  workspace(id: string): Promise<Workspace> {
    return this.#json(`/api/workspaces/${encodeURIComponent(id)}`);
  }

  setWorkspace(id: string, settings: unknown): Promise<Workspace> {
    const body = JSON.stringify(settings);
    return this.#json(`/api/workspaces/${encodeURIComponent(id)}`, { method: "PUT", body });
  }

  webhooks(workspace: string): Promise<{ webhooks: Webhook[] }> {
    return this.#json(webhooksPath(workspace));
  }

  addWebhook(
    workspace: string,
    order: { url: string; events?: string[] | undefined; links?: boolean | undefined },
  ): Promise<Webhook & { secret: string }> {
    return this.#json(webhooksPath(workspace), { method: "POST", body: JSON.stringify(order) });
  }

  async removeWebhook(workspace: string, id: string): Promise<void> {
    await this.request(webhooksPath(workspace, id), { method: "DELETE" });
  }

  async testWebhook(workspace: string, id: string): Promise<void> {
    await this.request(`${webhooksPath(workspace, id)}/test`, { method: "POST" });
  }

  export(id: string, format: string): Promise<Response> {
    const path = `/api/sessions/${encodeURIComponent(id)}/export?format=${format}`;
    return this.request(path, {}, { timeout: false });
  }

  async import(
    archive: Blob,
    query: Record<string, string>,
  ): Promise<{ sessionId: string; lastSeq: number }> {
    const path = `/api/sessions/import?${new URLSearchParams(query)}`;
    const response = await this.request(path, { method: "POST", body: archive }, { timeout: false });
    return (await response.json()) as { sessionId: string; lastSeq: number };
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
