import { Command } from "commander";
import type { TargetOptions } from "../target.ts";
import { acpUrl } from "../target.ts";
import { targetOf, withGateway } from "./context.ts";

/** Its stdout belongs to the editor: there is no `--json`, for there is nothing else there anyway. */
export function connectCommand(): Command {
  return withGateway(new Command("connect"))
    .description("A remote agent as a local command: ACP on stdio, for editors and acpx")
    .argument("[url]", "address of the gateway, instead of --url")
    .action(async (url: string | undefined, options: TargetOptions) => {
      const target = targetOf({ ...options, url: url ?? options.url });
      process.env.ACP_EDGE_TOKEN = await target.token();
      process.argv.splice(2, Number.POSITIVE_INFINITY, acpUrl(target));
      await import("../connect.ts");
    });
}
