/** A bridge whose tokens come from a command and expire before its connection ends. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { keyPath } from "../../src/cli/token-signer.ts";
import { chunks, type EditorOptions, onTheRoad } from "./editor.ts";
import { eventually, startGateway } from "./gateway.ts";
import { upTo } from "./updates.ts";

const COMMAND = fileURLToPath(new URL("../../src/cli/command/main.ts", import.meta.url));

/** A command that signs tokens with the key of a gateway, and keeps count. */
class TokenCommand {
  readonly #directory = mkdtempSync(join(tmpdir(), "acp-edge-tokens-"));
  readonly #runs = join(this.#directory, "runs");
  readonly #broken = join(this.#directory, "broken");
  readonly #line: string;

  constructor(state: string, lifetime: string) {
    onTestFinished(() => rmSync(this.#directory, { recursive: true, force: true }));
    writeFileSync(this.#runs, "");
    const sign = `"${process.execPath}" "${COMMAND}" token client --state "${state}" --lifetime "${lifetime}"`;
    this.#line = `echo run >> "${this.#runs}"; if [ -e "${this.#broken}" ]; then exit 7; fi; ${sign}`;
  }

  get options(): EditorOptions {
    return { env: { ACP_EDGE_TOKEN: "", ACP_EDGE_TOKEN_COMMAND: this.#line } };
  }

  get runs(): number {
    return readFileSync(this.#runs, "utf8").split("\n").length - 1;
  }

  breaks(broken: boolean): void {
    if (broken) writeFileSync(this.#broken, "");
    else rmSync(this.#broken);
  }
}

test("tokens valid for a second suffice for a turn with many cuts", async () => {
  await using gateway = await startGateway();
  const tokens = new TokenCommand(gateway.state, "1 second");
  const { way, editor, sessionId } = await onTheRoad(gateway, tokens.options);
  const before = tokens.runs;
  const answer = editor.prompt(sessionId, "/stream 1000 30 5");
  for (const place of ["000100", "000400", "000700"]) {
    await editor.reads(`"text":"${place} `);
    way.cut();
  }
  expect(await answer).toEqual({ stopReason: "end_turn" });
  // Each cut and each expiry needs another token.
  expect(tokens.runs).toBeGreaterThan(before + 3);
  expect(chunks(await editor.end())).toEqual(upTo(1000));
});

test("a token that the gateway no longer accepts is replaced, and the connection continues", async () => {
  await using before = await startGateway();
  const tokens = new TokenCommand(before.state, "1 hour");
  const { way, editor, sessionId } = await onTheRoad(before, tokens.options);
  const { runs } = tokens;
  // The gateway has another key, so all tokens so far are worthless.
  await before.stop();
  rmSync(keyPath(before.state));
  await using after = await startGateway({ state: before.state, root: before.root });
  way.leadTo(after.url);
  expect(await editor.prompt(sessionId, "/stream 3 20")).toEqual({ stopReason: "end_turn" });
  expect(tokens.runs).toBe(runs + 1);
  expect(editor.stderr).not.toContain("forgotten");
  expect(chunks(await editor.end())).toEqual(upTo(3));
});

test("a token command that fails is run again, until there is a token", async () => {
  await using gateway = await startGateway();
  const tokens = new TokenCommand(gateway.state, "1 second");
  const { way, editor, sessionId } = await onTheRoad(gateway, tokens.options);
  tokens.breaks(true);
  way.cut();
  const { runs } = tokens;
  const answer = editor.prompt(sessionId, "/stream 3 20");
  await eventually(() => tokens.runs >= runs + 2);
  expect(editor.stderr).toContain("the token command ended with code 7");
  tokens.breaks(false);
  expect(await answer).toEqual({ stopReason: "end_turn" });
  expect(chunks(await editor.end())).toEqual(upTo(3));
});
