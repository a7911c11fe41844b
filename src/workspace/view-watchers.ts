import { LIMITS } from "../protocol/limits.ts";

/** What the object remembers of a watcher's socket: the workspace's id, a mark of the last view it got, and whether it wants the next. */
type Attachment = { id: string; seen: string; waiting: boolean };

/**
 * Those who look at the workspace as it changes. Each asks when it has room for a view and gets it as soon as
 * there is another one: a slow reader misses what is in between, never how things are.
 */
export class Watchers {
  readonly #ctx: DurableObjectState;
  readonly #view: (id: string) => string;

  constructor(ctx: DurableObjectState, view: (id: string) => string) {
    this.#ctx = ctx;
    this.#view = view;
  }

  get any(): boolean {
    return this.#ctx.getWebSockets(TAG).length > 0;
  }

  accept(id: string, tags: readonly string[]): Response {
    if (this.#ctx.getWebSockets(TAG).length >= LIMITS.watchersPerWorkspace)
      return new Response("Too many watchers", { status: 429 });
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [TAG, ...tags]);
    server.serializeAttachment({ id, seen: "", waiting: false } satisfies Attachment);
    return new Response(null, { status: 101, webSocket: client });
  }

  isWatcher(ws: WebSocket): boolean {
    return this.#ctx.getTags(ws).includes(TAG);
  }

  /** A watcher has room. */
  next(ws: WebSocket): void {
    const { id, seen } = ws.deserializeAttachment() as Attachment;
    const view = this.#view(id);
    const mark = markOf(view);
    ws.serializeAttachment({ id, seen: mark, waiting: mark === seen } satisfies Attachment);
    if (mark !== seen) ws.send(`data: ${view}\n\n`);
  }

  /** Things have changed. */
  feed(): void {
    for (const ws of this.#ctx.getWebSockets(TAG)) {
      const isOpen = ws.readyState === WebSocket.OPEN;
      if (isOpen && (ws.deserializeAttachment() as Attachment).waiting) this.next(ws);
    }
  }
}

const TAG = "watch";

/** Enough to tell a view from the one before it: the length and a 32-bit hash (FNV-1a). */
function markOf(text: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return `${text.length}:${hash >>> 0}`;
}
