import { readAttachment, socketKind, writeAttachment } from "../durable/attachments.ts";
import { PullSockets } from "../durable/pull-sockets.ts";
import type { Result } from "../protocol/refusal.ts";

/**
 * Readers of the workspace's view as it changes. A slow reader misses the views in between, but always gets the
 * latest one.
 */
export class ViewWatchers {
  readonly #sockets: PullSockets<"workspace-watcher">;
  readonly #view: (id: string) => string;

  /** `view` returns the current view of the workspace with that id as JSON. */
  constructor(ctx: DurableObjectState, max: number, view: (id: string) => string) {
    this.#sockets = new PullSockets(ctx, "workspace-watcher", "workspace", max);
    this.#view = view;
  }

  get isEmpty(): boolean {
    return this.#sockets.isEmpty;
  }

  accept(id: string, tags: readonly string[]): Result<WebSocket> {
    return this.#sockets.accept({ kind: "workspace-watcher", id, seen: "", waiting: false }, tags);
  }

  /** The watcher asks for the next view. It gets the current one, or waits if it has that already. */
  next(ws: WebSocket): void {
    const watcher = readAttachment(ws, "workspace-watcher");
    if (!watcher) return;
    const view = this.#view(watcher.id);
    const seen = fingerprint(view);
    const isNew = seen !== watcher.seen;
    writeAttachment(ws, { ...watcher, seen, waiting: !isNew });
    if (isNew) ws.send(`data: ${view}\n\n`);
  }

  /** The view may have changed. */
  feed(): void {
    for (const ws of this.#sockets.waiting()) this.next(ws);
  }
}

/** Distinguishes a view from the one before it: the length and a 32-bit hash (FNV-1a). */
function fingerprint(text: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return `${text.length}:${hash >>> 0}`;
}

export function isWatcher(ws: WebSocket): boolean {
  return socketKind(ws) === "workspace-watcher";
}
