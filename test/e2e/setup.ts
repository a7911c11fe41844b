import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

/** Each file is a user of its own: its hosts hide the states of its own gateways, and the tester's home stays as it is. */
const directory = mkdtempSync(join(tmpdir(), "acp-edge-user-"));
process.env.XDG_STATE_HOME = join(directory, "state");
process.env.XDG_CONFIG_HOME = join(directory, "config");
afterAll(() => rmSync(directory, { recursive: true, force: true }));
