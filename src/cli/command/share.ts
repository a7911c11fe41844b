import { Command } from "commander";
import type { Share } from "../gateway/api-client.ts";
import { ago, table } from "../text-format.ts";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import { duration } from "./duration.ts";
import { print, stdout } from "./output.ts";
import { apiOf, resolveSessionId, SESSION_HELP } from "./resolve.ts";

/** Links by which anybody can read one session for a while. */
export function shareCommand(): Command {
  return new Command("share")
    .description("Links to read a session: make, list, take back")
    .addCommand(make())
    .addCommand(ls())
    .addCommand(rm());
}

function make(): Command {
  return gatewayCommand("make", "Make a link; whoever has it can read the session")
    .argument("<session>", SESSION_HELP)
    .option("--expires <duration>", "how long it is good: 30m, 12h, 7d", "1d")
    .option("--redact", "show the conversation, but nothing that tools were given or that came out of them")
    .action(async (text: string, options: GatewayOptions & { expires: string; redact?: true }) => {
      const { expires, redact = false } = options;
      const api = apiOf(options);
      const share = await api.share(await resolveSessionId(api, text), duration(expires), redact);
      print(options, share, () => share.url);
    });
}

function ls(): Command {
  return gatewayCommand("ls", "List links that are good").action(async (options: GatewayOptions) => {
    const { shares } = await apiOf(options).shares();
    print(options, { shares }, () => list(shares));
  });
}

function list(shares: readonly Share[]): string {
  if (shares.length === 0) return "nothing is shared";
  const rows = shares.map(({ id, session, by, at, expiresAt, redact }) => [
    ...[id, session, by, ago(at), expiresAt],
    redact ? "conversation" : "everything",
  ]);
  return table(["SHARE", "SESSION", "BY", "SINCE", "UNTIL", "SHOWS"], rows, stdout);
}

function rm(): Command {
  return gatewayCommand("rm", "Take a link back, and end what is read through it")
    .argument("<share>", "its id, as listed")
    .action(async (id: string, options: GatewayOptions) => {
      await apiOf(options).unshare(id);
      print(options, { removed: id }, () => "");
    });
}
