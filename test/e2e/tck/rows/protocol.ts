/** Rows about the transport, JSON-RPC, `initialize` and extensions. */
import { expect } from "vitest";
import { faults, unknownMembers } from "../../../fixtures/schema.ts";
import type { Message } from "../../client.ts";
import { audit } from "../../wires/frame-audit.ts";
import type { Frame, WireClient } from "../../wires/wire-client.ts";
import { type Candidate, INITIALIZE_ID, initialize, Skip } from "../candidate.ts";
import type { Row } from "../row.ts";

export const STOP_REASONS = ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"];

/** The messages of the gateway in a whole exchange: initialize, a new session, a turn. */
async function received(candidate: Candidate): Promise<Frame[]> {
  await candidate.exchange();
  const { frames } = await candidate.client();
  return frames.entries.filter(({ by }) => by === "server");
}

/** The methods of the client's requests, by their ids. */
function methodsOf({ frames }: WireClient): Map<unknown, string> {
  return new Map(
    frames.entries.flatMap(({ by, message }) =>
      by === "client" && message?.id !== undefined && message.method ? [[message.id, message.method]] : [],
    ),
  );
}

function versionOf({ result }: Message): unknown {
  return (result as { protocolVersion?: unknown } | undefined)?.protocolVersion;
}

/** Answers that are errors by right: a method nobody has, and parameters without a required member. */
async function refusedRequests(candidate: Candidate): Promise<Message[]> {
  const client = await candidate.client();
  return [
    await client.request("_suite/unknown", {}),
    await client.request("session/new", { mcpServers: [] }, { isDeliberate: true }),
  ];
}

/** Sends something that is no message, and says what the gateway answered; the connection stays usable. */
async function nonsense(candidate: Candidate, value: string): Promise<string> {
  const client = await candidate.client();
  const { sessionId } = await candidate.session("shared");
  const from = client.frames.entries.length;
  const refused = client.refusals.length;
  client.sendText(value, true);
  await client.fence(sessionId);
  const [refusal] = client.refusals.splice(refused);
  const isReply = ({ by, message }: Frame) => by === "server" && message?.id === null;
  const reply = client.frames.entries.slice(from).find(isReply);
  return `${refusal ?? reply?.message?.error?.code ?? "silence"}, and the connection stays usable`;
}

export const PROTOCOL_ROWS: Row[] = [
  {
    id: "ACP-TRANSPORT-001",
    tier: "mandatory",
    requires: "each message of the transport is one JSON-RPC 2.0 object",
    async check(candidate) {
      for (const { message, text } of await received(candidate))
        expect(message, text).toMatchObject({ jsonrpc: "2.0" });
      const { refusals } = await candidate.client();
      expect(refusals).toEqual([]);
    },
  },
  {
    id: "ACP-TRANSPORT-002",
    tier: "mandatory",
    requires: "all messages are UTF-8",
    async check(candidate) {
      // The wire decodes strictly, so a message with other bytes never becomes a frame.
      const texts = (await received(candidate)).map(({ text }) => text);
      expect(texts.length).toBeGreaterThan(2);
      expect(texts.join("")).not.toContain("\uFFFD");
    },
  },
  {
    id: "ACP-JSONRPC-001",
    tier: "mandatory",
    requires: "a response has the id of its request, whether a number or a string",
    async check(candidate) {
      await candidate.session("shared");
      const ids = (await received(candidate)).flatMap(({ message }) =>
        message?.method ? [] : [message?.id],
      );
      expect(ids).toEqual(expect.arrayContaining([INITIALIZE_ID, "shared"]));
    },
  },
  {
    id: "ACP-JSONRPC-002",
    tier: "mandatory",
    requires: "a response has either a result or an error, and an error has a code and a message",
    async check(candidate) {
      const [, invalid] = await refusedRequests(candidate);
      expect(faults(await candidate.initialized(), "initialize")).toEqual([]);
      expect(faults(invalid as Message, "session/new")).toEqual([]);
      expect(invalid?.error).toEqual(
        expect.objectContaining({ code: expect.any(Number), message: expect.any(String) }),
      );
    },
  },
  {
    id: "ACP-JSONRPC-003",
    tier: "mandatory",
    requires: "a notification gets no response",
    async check(candidate) {
      const client = await candidate.client();
      const { sessionId } = await candidate.session("shared");
      await candidate.exchange();
      const from = client.frames.entries.length;
      client.notify("session/cancel", { sessionId });
      await client.fence(sessionId);
      const responses = client.frames.entries
        .slice(from)
        .filter(({ by, message }) => by === "server" && message?.method === undefined);
      // The only response is that of the fence.
      expect(responses).toHaveLength(1);
    },
  },
  {
    id: "ACP-JSONRPC-004",
    tier: "advisory",
    requires: "an unknown method is answered with -32601",
    async check(candidate) {
      const [unknown] = await refusedRequests(candidate);
      expect(unknown?.error?.code).toBe(-32601);
    },
  },
  {
    id: "ACP-JSONRPC-005",
    tier: "advisory",
    requires: "the connection goes on after a request that failed",
    async check(candidate) {
      await refusedRequests(candidate);
      await candidate.session("second");
    },
  },
  {
    id: "ACP-INIT-001",
    tier: "mandatory",
    requires: "initialize succeeds, by the schema, with a whole number as protocolVersion",
    async check(candidate) {
      const answer = await candidate.initialized();
      expect(faults(answer, "initialize")).toEqual([]);
      expect(versionOf(answer)).toEqual(expect.any(Number));
    },
  },
  {
    id: "ACP-INIT-002",
    tier: "mandatory",
    requires: "a client that wants version 1 gets version 1",
    async check(candidate) {
      expect(versionOf(await candidate.initialized())).toBe(1);
    },
  },
  {
    id: "ACP-INIT-003",
    tier: "mandatory",
    requires: "a client that wants an unknown version gets the latest known version instead of its own",
    async check(candidate) {
      const client = await candidate.connect();
      const info = { name: "suite", version: "1" };
      const version = versionOf(await initialize(client, 65_535, 1, { info }));
      await client.end();
      expect(version).toBe(versionOf(await candidate.initialized()));
    },
  },
  {
    id: "ACP-INIT-004",
    tier: "advisory",
    requires: "initialize names the agent and its version",
    async check(candidate) {
      const { result } = await candidate.initialized();
      expect(result).toMatchObject({ agentInfo: { name: expect.any(String), version: expect.any(String) } });
    },
  },
  {
    id: "ACP-SCHEMA-001",
    tier: "mandatory",
    requires: "every message of an exchange is valid by the schema",
    async check(candidate) {
      await candidate.exchange();
      const { frames } = await candidate.client();
      expect(audit(frames.entries)).toEqual([]);
    },
  },
  {
    id: "ACP-SCHEMA-002",
    tier: "advisory",
    requires: "messages have no members of their own beside _meta",
    async check(candidate) {
      const messages = await received(candidate);
      const methods = methodsOf(await candidate.client());
      const unknown = messages.flatMap(({ message }) => {
        const method = message?.method ?? methods.get(message?.id);
        return method?.startsWith("_")
          ? []
          : unknownMembers(message as Message, method).map((name) => `${method}: ${name}`);
      });
      expect([...new Set(unknown)]).toEqual([]);
    },
  },
  {
    id: "ACP-EXT-001",
    tier: "mandatory",
    requires: "a request of an unknown extension is answered",
    async check(candidate) {
      const client = await candidate.client();
      const { sessionId } = await candidate.session("shared");
      const answer = await client.request("_suite/unknown", {});
      expect("result" in answer || "error" in answer).toBe(true);
      // The agent, not the gateway, answers extensions of a session.
      await client.fence(sessionId);
    },
  },
  {
    id: "ACP-META-001",
    tier: "advisory",
    requires: "a prompt with _meta runs like any other",
    async check(candidate) {
      const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
      const { response } = await candidate.turn(candidate.agent.prompts.hello, { traceparent, suite: true });
      expect(response.result).toMatchObject({ stopReason: expect.toBeOneOf(STOP_REASONS) });
    },
  },
  {
    id: "ACP-ERROR-001",
    tier: "advisory",
    requires: "the message of an error is one line and not empty",
    async check(candidate) {
      const client = await candidate.client();
      const answers = [
        ...(await refusedRequests(candidate)),
        await client.request("session/list", { cursor: "no cursor" }),
      ];
      for (const { error } of answers) expect(error?.message).toMatch(/^[^\n]+$/);
    },
  },
  {
    id: "ACP-SHUTDOWN-001",
    tier: "advisory",
    requires: "the other side ends by itself when the client ends the connection",
    async check(candidate) {
      const client = await candidate.connect();
      await initialize(client, 1, 1);
      // A process that ends with 0, a socket that closes with 1000, an HTTP connection that is deleted.
      expect(await client.end()).toBeOneOf(["0", "1000", "202"]);
    },
  },
  {
    id: "ACP-STDERR-001",
    tier: "informational",
    requires: "the amount of diagnostics on stderr is reported",
    async check(candidate) {
      await candidate.exchange();
      const { diagnostics } = (await candidate.client()).wire;
      if (!diagnostics) throw new Skip("the transport has no stderr");
      return `${diagnostics()} bytes`;
    },
  },
  {
    id: "ACP-INFO-PARSE-001",
    tier: "informational",
    requires: "the answer to a message that is not JSON is reported, and the connection is usable afterwards",
    check: (candidate) => nonsense(candidate, "{not valid json at all"),
  },
  {
    id: "ACP-INFO-INVALIDREQ-001",
    tier: "informational",
    requires: "the answer to JSON that is no message is reported, and the connection is usable afterwards",
    check: (candidate) => nonsense(candidate, '{"foo":"bar"}'),
  },
  {
    id: "ACP-INFO-UNKNOWNSESSION-001",
    tier: "informational",
    requires: "the answer to a prompt in an unknown session is reported",
    async check(candidate) {
      const client = await candidate.client();
      await candidate.session("shared");
      const prompt = [{ type: "text", text: "hi" }];
      const { error } = await client.request("session/prompt", { sessionId: "never-created", prompt });
      return String(error?.code ?? "a result");
    },
  },
];
