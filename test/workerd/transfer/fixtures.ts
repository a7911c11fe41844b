import { exports } from "cloudflare:workers";
import { type ParsedTarEntryWithData, packTar, unpackTar } from "modern-tar";
import { expect } from "vitest";
import type { Caller } from "../../../src/protocol/caller.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import type { Json } from "../../fixtures/json.ts";
import { get, sessionStub } from "../fixtures.ts";
import { CONTROLLER, token } from "../tokens.ts";

// ---- helpers ------------------------------------------------------------------------------------------

export async function download(workspace: string, sessionId: string, format: string): Promise<Response> {
  const response = await get(
    `/api/sessions/${sessionId}/export?format=${format}`,
    await token({ workspace }),
  );
  expect(response.status).toBe(200);
  return response;
}

type Files = Map<string, string>;

export function filesOf(entries: ParsedTarEntryWithData[]): Files {
  return new Map(entries.map(({ header, data }) => [header.name, new TextDecoder().decode(data)]));
}

export async function archive(workspace: string, sessionId: string): Promise<Files> {
  const response = await download(workspace, sessionId, "acpx");
  return filesOf(await unpackTar(new Uint8Array(await response.arrayBuffer()), { strict: true }));
}

export function tarOf(files: Iterable<readonly [string, string]>): Promise<Uint8Array<ArrayBuffer>> {
  return packTar(
    [...files].map(([name, text]) => {
      const body = new TextEncoder().encode(text);
      return { header: { name, size: body.length, type: "file" as const }, body };
    }),
  );
}

export async function upload(
  body: BodyInit,
  {
    workspace,
    tenant = "acme",
    query = "",
    type = "application/x-tar",
    scopes = CONTROLLER,
  }: { workspace: string; tenant?: string; query?: string; type?: string; scopes?: string[] },
): Promise<{ status: number; json: Json & { sessionId?: string; error?: Json } }> {
  const response = await exports.default.fetch(`https://edge.test/api/sessions/import${query}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${await token({ workspace, tenant, scopes })}`, "Content-Type": type },
    body,
  });
  return { status: response.status, json: (await response.json()) as Json };
}

/** An envelope of another system, with members that ours never have. */
export function foreign(sessionId: string, seq: number, more: Json = {}): string {
  return JSON.stringify({
    schema: "acpx.event.v1",
    seq,
    eventId: `evt-${seq}`,
    at: `2026-02-27T10:11:${String(12 + (seq % 40)).padStart(2, "0")}.345Z`,
    acpxRecordId: sessionId,
    acpSessionId: "foreign-session",
    source: "acpx",
    kind: "vendor.thing",
    payload: {},
    ...more,
  });
}

export const segments = (files: Files) => [...files].filter(([name]) => name.startsWith("events/"));

/** The owner of the sessions here, for calls past the Worker. */
export const OWNER: Caller = {
  tenant: "acme",
  subject: "someone",
  workspaces: ["*"],
  scopes: ["session:prompt"],
  expires: 0,
};

export async function deleteSession(sessionId: string): Promise<void> {
  expect(await sessionStub(sessionId).delete(OWNER)).toMatchObject({ ok: true });
}

/** The text of the largest frame that is accepted. */
export const LARGEST = DEFAULT_LIMITS.frameChars - 100;

export function big(chars: number, fill = "x"): string {
  return `{"jsonrpc":"2.0","method":"_big","params":{"text":"${fill.repeat(chars)}"}}`;
}
