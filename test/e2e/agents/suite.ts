/** Scenarios of a published agent behind the gateway, as tests of the file that calls it. Only its model is a stand-in. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readLog } from "../client.ts";
import { eventually } from "../gateway.ts";
import { WRITTEN } from "../model-stand-in/plan.ts";
import { textOf } from "../updates.ts";
import { readTaps } from "../wires/agent-tap.ts";
import { audit, describeFaults, withoutPassedOn } from "../wires/frame-audit.ts";
import { text } from "../wires/wire-client.ts";
import { COLOUR } from "./capable-client.ts";
import { difference, portrait } from "./comparison.ts";
import { installedAgent } from "./installed.ts";
import { PENDING } from "./pending.ts";
import type { PublishedAgent } from "./published.ts";
import { Stage } from "./stage.ts";

/** Starting these agents takes seconds, and the machine may be busy. */
const PATIENCE = { timeout: 180_000 };

export function publishedAgentSuite(agent: PublishedAgent): void {
  const installed = installedAgent(agent.name);
  if ("missing" in installed) {
    test(`${agent.name} is installed`, (context) => {
      if (process.env.CI) throw new Error(installed.missing);
      console.log(installed.missing);
      context.skip(installed.missing);
    });
    return;
  }
  const stage = new Stage(agent, installed.modules);
  const scenario = (name: string, run: () => Promise<void>) => {
    const pending = PENDING.find((entry) => entry.agent === agent.name && entry.scenario === name);
    test(name, PATIENCE, async (context) => {
      try {
        await run();
      } catch (error) {
        if (!pending) throw error;
        console.log(`PENDING: ${agent.name}, ${name}: ${pending.reason}\n${error}`);
        return context.skip(pending.reason);
      }
      if (pending) throw new Error(`"${name}" passes: take it out of the pending scenarios`);
    });
  };

  describe(`${agent.name}, a published agent`, () => {
    beforeAll(() => stage.start(), PATIENCE.timeout);
    afterAll(() => stage.end(), PATIENCE.timeout);

    scenario("thinks and speaks", async () => {
      const { response, updates } = stage.turn("speech");
      expect(response).toMatchObject({ result: { stopReason: "end_turn" } });
      expect(textOf(updates)).toBe("Piece 1 of 3. Piece 2 of 3. Piece 3 of 3. ");
      const thoughts = updates.filter(({ sessionUpdate }) => sessionUpdate === "agent_thought_chunk");
      expect(JSON.stringify(thoughts)).toMatch(/Let me think.*about this\./);
    });

    scenario("writes a file after the user has allowed it", async () => {
      const { response, requests, updates } = stage.turn("file");
      expect(response).toMatchObject({ result: { stopReason: "end_turn" } });
      expect(requests.map(({ method }) => method)).toEqual(["session/request_permission"]);
      expect(readFileSync(join(stage.root, "written.txt"), "utf8")).toBe(WRITTEN);
      expect(JSON.stringify(updates)).toContain('"status":"completed"');
    });

    scenario("runs a command whose output the client sees", async () => {
      const { response, updates } = stage.turn("command");
      expect(response).toMatchObject({ result: { stopReason: "end_turn" } });
      expect(existsSync(join(stage.root, "ran.txt"))).toBe(true);
      expect(agent.outputOf(updates)).toMatch(/first\s+second/);
    });

    if (agent.asks) {
      scenario("asks the user a question", async () => {
        const { response, requests, updates } = stage.turn("question");
        expect(response).toMatchObject({ result: { stopReason: "end_turn" } });
        expect(requests.map(({ method }) => method)).toEqual(["elicitation/create"]);
        expect(textOf(updates)).toContain(COLOUR);
      });

      scenario("asks a question that is answered while nobody is attached", async () => {
        await stage.answerQuestionWithNobodyAttached();
      });
    }

    scenario("stops when the user cancels", async () => {
      const { response } = stage.turn("cancel");
      expect(response).toMatchObject({ result: { stopReason: "cancelled" } });
    });

    scenario("sends a capable client the same messages as without the gateway", async () => {
      const direct = portrait(stage.direct, stage.directRoot);
      const through = portrait(stage.through, stage.root);
      expect(direct.length).toBeGreaterThan(5);
      const found = difference(direct, through);
      if (found.length > 0) throw new Error(`The messages differ:\n${found.join("\n")}`);
    });

    scenario("goes on with its session after a crash of the gateway and of the host", async () => {
      const { through } = stage;
      const { sessionId } = through;
      stage.gateway.killWorkerd();
      stage.gateway.killHost();
      const client = await stage.reconnect();
      // A prompt that comes before the gateway knows of the loss would fail with it.
      await eventually(async () => {
        const log = await readLog(stage.gateway, sessionId);
        return log.some(({ kind }) => kind === "queue.owner.stopped");
      }, 60_000);
      const from = client.frames.entries.length;
      const loaded = await client.request("session/load", { sessionId, cwd: stage.root, mcpServers: [] });
      expect(loaded.error).toBeUndefined();
      expect(textOf(client.since(from, sessionId).updates)).toContain(
        "Piece 1 of 3. Piece 2 of 3. Piece 3 of 3. ",
      );
      const again = await client.prompt(sessionId, text("Please speak again. [[say 2]]"));
      expect(again.response).toMatchObject({ result: { stopReason: "end_turn" } });
      expect(textOf(again.updates)).toContain("Piece 1 of 2. Piece 2 of 2. ");
    });

    scenario("no message violates the schema, to the agent or to the client", async () => {
      await stage.gateway.stop();
      const processes = readTaps(stage.taps);
      const atAgent = processes.flatMap(audit);
      const ofAgent = atAgent.filter(({ by }) => by === "agent");
      if (ofAgent.length > 0)
        console.log(`Faults of ${agent.name} itself:\n${describeFaults(ofAgent).join("\n")}`);
      expect(processes.length).toBeGreaterThan(0);
      expect(describeFaults(atAgent.filter(({ by }) => by === "gateway"))).toEqual([]);
      const atClients = stage.clients.flatMap(({ frames }) => audit(frames.entries));
      expect(describeFaults(withoutPassedOn(atClients, ofAgent))).toEqual([]);
    });
  });
}
