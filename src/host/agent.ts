import { extname } from "node:path";
import { fileURLToPath } from "node:url";

/** Beside us, as a source or, in the published package, as a bundle. */
const DEMO_AGENT = fileURLToPath(new URL(`../demo-agent/main${extname(import.meta.url)}`, import.meta.url));

/** An agent this host can start. */
export type Agent = { id: string; name: string; command: readonly string[]; default: boolean };

/** The demo agent, and the one given on the command line, which then is the default. */
export function offeredAgents(command: readonly string[] | undefined): Agent[] {
  const demo: Agent = {
    id: "demo",
    name: "Demo agent",
    command: [process.execPath, DEMO_AGENT],
    default: command === undefined,
  };
  if (command === undefined) return [demo];
  return [{ id: "custom", name: command.join(" "), command, default: true }, demo];
}
