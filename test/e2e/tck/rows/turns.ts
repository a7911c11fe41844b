/** Rows about prompts: turns, cancelling, kinds of content, and what an agent may ask of the client meanwhile. */
import { expect } from "vitest";
import { faults } from "../../../fixtures/schema.ts";
import { type Block, isUpdateOf, minimalAnswer, type Turn, text } from "../../wires/wire-client.ts";
import type { Candidate } from "../candidate.ts";
import type { Row } from "../row.ts";
import { STOP_REASONS } from "./protocol.ts";

/** A turn that is cancelled while it runs, and the updates that came after its response. */
async function cancelled(candidate: Candidate): Promise<Turn & { late: number }> {
  const client = await candidate.client();
  const { sessionId } = await candidate.session("shared");
  await candidate.exchange();
  const turn = await client.prompt(sessionId, text(candidate.agent.prompts.hold), {
    during: () => {
      client.answering = (request) => minimalAnswer(request, true);
      client.notify("session/cancel", { sessionId });
    },
  });
  client.answering = (request) => minimalAnswer(request, false);
  const ended = client.frames.entries.length;
  await client.fence(sessionId);
  const late = client.frames.entries.slice(ended).filter(({ message }) => isUpdateOf(message, sessionId));
  return { ...turn, late: late.length };
}

async function promptWith(candidate: Candidate, block: Block): Promise<void> {
  const client = await candidate.client();
  const { sessionId } = await candidate.session("shared");
  await candidate.exchange();
  const turn = await client.prompt(sessionId, [...text(candidate.agent.prompts.hello), block]);
  expect(turn.response.result).toMatchObject({ stopReason: expect.toBeOneOf(STOP_REASONS) });
}

/** The methods that an agent called although the client offers nothing. A turn that waits for the user is cancelled. */
async function methodsCalled(candidate: Candidate, prompt: string): Promise<string[]> {
  const client = await candidate.client();
  const { sessionId } = await candidate.session("shared");
  await candidate.exchange();
  const { requests } = await client.prompt(sessionId, text(prompt), {
    during: async () => {
      await client.fence(sessionId);
      client.notify("session/cancel", { sessionId });
    },
  });
  return requests.map(({ method }) => method as string);
}

async function calledBy(candidate: Candidate, prompt: string): Promise<string[]> {
  return (await candidate.turn(prompt)).requests.map(({ method }) => method as string);
}

export const TURN_ROWS: Row[] = [
  {
    id: "ACP-PROMPT-001",
    tier: "mandatory",
    requires: "a prompt of text ends with a stop reason of the protocol",
    async check(candidate) {
      const { response } = await candidate.exchange();
      expect(response.result).toMatchObject({ stopReason: expect.toBeOneOf(STOP_REASONS) });
    },
  },
  {
    id: "ACP-PROMPT-002",
    tier: "mandatory",
    requires: "the updates of a turn are valid and name the session of the prompt",
    async check(candidate) {
      const { frames } = await candidate.exchange();
      const { sessionId } = await candidate.session("shared");
      const updates = frames.flatMap(({ message }) =>
        message?.method === "session/update" ? [message] : [],
      );
      expect(updates.length).toBeGreaterThan(0);
      for (const update of updates) {
        expect(faults(update), JSON.stringify(update)).toEqual([]);
        expect(isUpdateOf(update, sessionId)).toBe(true);
      }
    },
  },
  {
    id: "ACP-PROMPT-003",
    tier: "advisory",
    requires: "a prompt may have a link to a resource",
    check: (candidate) =>
      promptWith(candidate, { type: "resource_link", uri: "file:///tmp/example.txt", name: "example.txt" }),
  },
  {
    id: "ACP-PROMPTCAP-001",
    tier: "capability",
    capability: "promptCapabilities.image",
    requires: "a prompt may have an image",
    check: (candidate) => promptWith(candidate, { type: "image", mimeType: "image/png", data: PNG }),
  },
  {
    id: "ACP-PROMPTCAP-002",
    tier: "capability",
    capability: "promptCapabilities.audio",
    requires: "a prompt may have a recording",
    check: (candidate) => promptWith(candidate, { type: "audio", mimeType: "audio/wav", data: WAV }),
  },
  {
    id: "ACP-PROMPTCAP-003",
    tier: "capability",
    capability: "promptCapabilities.embeddedContext",
    requires: "a prompt may have a resource with its content",
    check: (candidate) =>
      promptWith(candidate, {
        type: "resource",
        resource: { uri: "file:///tmp/context.txt", mimeType: "text/plain", text: "some context" },
      }),
  },
  {
    id: "ACP-CANCEL-001",
    tier: "mandatory",
    requires: "a turn that is cancelled ends with the stop reason cancelled and without an error",
    async check(candidate) {
      const { response } = await cancelled(candidate);
      expect(response.result).toMatchObject({ stopReason: "cancelled" });
    },
  },
  {
    id: "ACP-CANCEL-002",
    tier: "mandatory",
    requires: "no update of a cancelled turn follows its response",
    async check(candidate) {
      const { response, late } = await cancelled(candidate);
      expect(response.result).toBeDefined();
      expect(late).toBe(0);
    },
  },
  {
    id: "ACP-CLIENTCAP-001",
    tier: "mandatory",
    requires: "a client without fs is not asked for files",
    async check(candidate) {
      const called = await calledBy(candidate, candidate.agent.prompts.read);
      expect(called.filter((method) => method.startsWith("fs/"))).toEqual([]);
    },
  },
  {
    id: "ACP-CLIENTCAP-002",
    tier: "mandatory",
    requires: "a client without terminals is not asked for one",
    async check(candidate) {
      const called = await calledBy(candidate, candidate.agent.prompts.run);
      expect(called.filter((method) => method.startsWith("terminal/"))).toEqual([]);
    },
  },
  {
    id: "ACP-CLIENTCAP-003",
    tier: "mandatory",
    requires: "a client without elicitation is asked no questions",
    async check(candidate) {
      const called = await methodsCalled(candidate, candidate.agent.prompts.ask);
      expect(called.filter((method) => method.startsWith("elicitation/"))).toEqual([]);
    },
  },
];

/** One white pixel. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/** Eight samples of silence. */
const WAV = Buffer.concat([
  Buffer.from("RIFF"),
  Buffer.from([44, 0, 0, 0]),
  Buffer.from("WAVEfmt "),
  Buffer.from([16, 0, 0, 0, 1, 0, 1, 0, 64, 31, 0, 0, 64, 31, 0, 0, 1, 0, 8, 0]),
  Buffer.from("data"),
  Buffer.from([8, 0, 0, 0]),
  Buffer.alloc(8, 128),
]).toString("base64");
