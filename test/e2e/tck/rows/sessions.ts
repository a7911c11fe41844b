/** Rows about sessions: opening, coming back, listing, ending, and their modes and options. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { faults } from "../../../fixtures/schema.ts";
import type { Message } from "../../client.ts";
import { type Frame, isUpdateOf, text } from "../../wires/wire-client.ts";
import { type Candidate, Skip } from "../candidate.ts";
import type { Row } from "../row.ts";

type Option = {
  id: string;
  type?: string;
  currentValue?: unknown;
  options?: { value?: unknown; options?: { value: unknown }[] }[];
};
type Modes = { currentModeId: string; availableModes: { id: string }[] };

const HISTORY = ["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"];

async function ask(candidate: Candidate, method: string, params: object): Promise<Message> {
  const answer = await (await candidate.client()).request(method, params);
  expect(answer, JSON.stringify(answer)).toHaveProperty("result");
  expect(faults(answer, method)).toEqual([]);
  return answer;
}

/** Attaches to the session `shared` again, which has a turn behind it; resolves with the frames up to the answer and after. */
async function attach(candidate: Candidate, method: "session/load" | "session/resume") {
  await candidate.exchange();
  const client = await candidate.client();
  const { sessionId } = await candidate.session("shared");
  const from = client.frames.entries.length;
  const servers = method === "session/load" ? { mcpServers: [] } : {};
  const answer = await ask(candidate, method, { sessionId, cwd: candidate.root, ...servers });
  const answered = client.frames.entries.length;
  await client.fence(sessionId);
  const isUpdate = ({ message }: Frame) => isUpdateOf(message, sessionId);
  const before = client.frames.entries.slice(from, answered).filter(isUpdate);
  const after = client.frames.entries.slice(answered).filter(isUpdate);
  return { answer, before, after, isOrdered: client.wire.isOrdered };
}

async function modesOf(candidate: Candidate): Promise<Modes> {
  const { modes } = (await candidate.session("shared")).result;
  if (!modes) throw new Skip("the session has no modes");
  return modes as Modes;
}

async function optionsOf(candidate: Candidate): Promise<Option[]> {
  const { configOptions } = (await candidate.session("shared")).result;
  if (!configOptions) throw new Skip("the session has no options");
  return configOptions as Option[];
}

function valuesOf({ options = [] }: Option): unknown[] {
  return options.flatMap((choice) =>
    "value" in choice ? [choice.value] : (choice.options ?? []).map((o) => o.value),
  );
}

export const SESSION_ROWS: Row[] = [
  {
    id: "ACP-SESSION-001",
    tier: "mandatory",
    requires: "a new session has an id, and the answer is valid",
    async check(candidate) {
      const { sessionId, result } = await candidate.session("shared");
      expect(sessionId).not.toBe("");
      expect(faults({ jsonrpc: "2.0", id: 1, result }, "session/new")).toEqual([]);
    },
  },
  {
    id: "ACP-SESSION-002",
    tier: "mandatory",
    requires: "two sessions of a connection have different ids",
    async check(candidate) {
      const ids = [await candidate.session("shared"), await candidate.session("second")].map(
        (s) => s.sessionId,
      );
      expect(new Set(ids).size).toBe(2);
    },
  },
  {
    id: "ACP-LOAD-001",
    tier: "capability",
    capability: "loadSession",
    requires: "a session can be loaded, and the answer is valid",
    async check(candidate) {
      await attach(candidate, "session/load");
    },
  },
  {
    id: "ACP-LOAD-002",
    tier: "capability",
    capability: "loadSession",
    requires: "the history is replayed before the answer of the load, and nothing of it afterwards",
    async check(candidate) {
      const { before, after, isOrdered } = await attach(candidate, "session/load");
      expect(before.length + after.length).toBeGreaterThan(0);
      // Two streams have no common order: there the fence alone says when the replay is over.
      if (isOrdered) expect(after.map(({ text: late }) => late)).toEqual([]);
    },
  },
  {
    id: "ACP-LOAD-003",
    tier: "advisory",
    capability: "loadSession",
    requires: "the answer of a load is an object and not null",
    async check(candidate) {
      const { answer } = await attach(candidate, "session/load");
      expect(answer.result).toEqual(expect.any(Object));
    },
  },
  {
    id: "ACP-RESUME-001",
    tier: "capability",
    capability: "sessionCapabilities.resume",
    requires: "a session can be resumed without naming MCP servers, and the answer is valid",
    async check(candidate) {
      await attach(candidate, "session/resume");
    },
  },
  {
    id: "ACP-RESUME-002",
    tier: "capability",
    capability: "sessionCapabilities.resume",
    requires: "a resume replays no history",
    async check(candidate) {
      const { before, after } = await attach(candidate, "session/resume");
      const kinds = [...before, ...after].map(
        ({ message }) => message?.params?.update?.sessionUpdate as string,
      );
      expect(kinds.filter((kind) => HISTORY.includes(kind))).toEqual([]);
    },
  },
  {
    id: "ACP-LIST-001",
    tier: "capability",
    capability: "sessionCapabilities.list",
    requires: "sessions can be listed, and the answer is valid",
    async check(candidate) {
      await candidate.session("shared");
      const { result } = await ask(candidate, "session/list", {});
      expect((result as { sessions: unknown }).sessions).toEqual(expect.any(Array));
    },
  },
  {
    id: "ACP-LIST-002",
    tier: "capability",
    capability: "sessionCapabilities.list",
    requires: "a directory without sessions gives an empty list",
    async check(candidate) {
      await candidate.session("shared");
      const cwd = join(candidate.root, "no-session-here");
      mkdirSync(cwd, { recursive: true });
      expect((await ask(candidate, "session/list", { cwd })).result).toMatchObject({ sessions: [] });
    },
  },
  {
    id: "ACP-ADDDIRS-001",
    tier: "capability",
    capability: "sessionCapabilities.additionalDirectories",
    requires: "a new session may have further directories",
    async check(candidate) {
      await candidate.session("directories", { additionalDirectories: [candidate.root] });
    },
  },
  {
    id: "ACP-CLOSE-001",
    tier: "capability",
    capability: "sessionCapabilities.close",
    requires: "an idle session can be closed, and the answer is valid",
    async check(candidate) {
      const { sessionId } = await candidate.session("second");
      await ask(candidate, "session/close", { sessionId });
    },
  },
  {
    id: "ACP-CLOSE-002",
    tier: "capability",
    capability: "sessionCapabilities.close",
    requires: "to close a session cancels its running turn",
    async check(candidate) {
      const client = await candidate.client();
      const { sessionId } = await candidate.session("third");
      const { response } = await client.prompt(sessionId, text(candidate.agent.prompts.hold), {
        during: async () => {
          await ask(candidate, "session/close", { sessionId });
        },
      });
      expect(response.result).toMatchObject({ stopReason: "cancelled" });
    },
  },
  {
    id: "ACP-DELETE-001",
    tier: "capability",
    capability: "sessionCapabilities.delete",
    requires: "a session can be deleted, and the answer is valid",
    async check(candidate) {
      const { sessionId } = await candidate.session("second");
      await ask(candidate, "session/delete", { sessionId });
    },
  },
  {
    id: "ACP-DELETE-002",
    tier: "advisory",
    capability: "sessionCapabilities.delete",
    requires: "to delete a session that does not exist succeeds",
    async check(candidate) {
      await ask(candidate, "session/delete", { sessionId: "never-created" });
    },
  },
  {
    id: "ACP-MODES-001",
    tier: "capability",
    requires: "the current mode is one of the modes",
    async check(candidate) {
      const { currentModeId, availableModes } = await modesOf(candidate);
      expect(availableModes.map(({ id }) => id)).toContain(currentModeId);
    },
  },
  {
    id: "ACP-MODES-002",
    tier: "capability",
    requires: "the mode can be set, and an update about the mode names it currentModeId",
    async check(candidate) {
      const client = await candidate.client();
      const { sessionId } = await candidate.session("shared");
      const { currentModeId, availableModes } = await modesOf(candidate);
      const modeId = availableModes.find(({ id }) => id !== currentModeId)?.id;
      if (modeId === undefined) throw new Skip("there is only one mode");
      const from = client.frames.entries.length;
      await ask(candidate, "session/set_mode", { sessionId, modeId });
      await client.fence(sessionId);
      for (const { message } of client.frames.entries.slice(from))
        if (isUpdateOf(message, sessionId, "current_mode_update"))
          expect(message?.params?.update).toMatchObject({ currentModeId: modeId });
      await ask(candidate, "session/set_mode", { sessionId, modeId: currentModeId });
    },
  },
  {
    id: "ACP-CONFIG-001",
    tier: "capability",
    requires: "the value of each option is one of its values",
    async check(candidate) {
      for (const option of await optionsOf(candidate)) {
        if (option.type === "boolean") expect(option.currentValue).toEqual(expect.any(Boolean));
        else expect(valuesOf(option)).toContain(option.currentValue);
      }
    },
  },
  {
    id: "ACP-CONFIG-002",
    tier: "capability",
    requires: "to set an option is answered with all options and the new value",
    async check(candidate) {
      const { sessionId } = await candidate.session("shared");
      const options = await optionsOf(candidate);
      const [first] = options;
      const value = first && valuesOf(first).find((other) => other !== first.currentValue);
      if (!first || value === undefined) throw new Skip("the first option has no other value");
      const { result } = await ask(candidate, "session/set_config_option", {
        sessionId,
        configId: first.id,
        value,
      });
      const answered = (result as { configOptions: Option[] }).configOptions;
      expect(answered.map(({ id }) => id)).toEqual(expect.arrayContaining(options.map(({ id }) => id)));
      expect(answered.find(({ id }) => id === first.id)?.currentValue).toBe(value);
    },
  },
  {
    id: "ACP-CONFIG-003",
    tier: "mandatory",
    requires: "a client that cannot show switches gets no option that is one",
    async check(candidate) {
      const { configOptions = [] } = (await candidate.session("shared")).result;
      expect((configOptions as Option[]).filter(({ type }) => type === "boolean")).toEqual([]);
    },
  },
];
