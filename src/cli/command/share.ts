import { Command } from "commander";
import type { Share } from "../../protocol/rest.ts";
import { ago, table } from "../text-format.ts";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import { parseDuration } from "./duration.ts";
import { print, stdout } from "./output.ts";
import { apiOf, resolveSessionId, SESSION_HELP } from "./resolve.ts";

/** Links that let anyone read one session for a limited time. */
export function shareCommand(): Command {
  return new Command("share")
    .description("Create, list and revoke read-only links to sessions")
    .addCommand(make())
    .addCommand(ls())
    .addCommand(rm());
}

function make(): Command {
  return gatewayCommand("make", "Create a link; anyone with the link can read the session")
    .argument("<session>", SESSION_HELP)
    .option("--expires <duration>", "how long the link is valid: 30m, 12h, 7d", "1d")
    .option("--redact", "show the conversation without the input and output of tools")
    .action(async (text: string, options: GatewayOptions & { expires: string; redact?: true }) => {
      const { expires, redact = false } = options;
      const api = apiOf(options);
      const share = await api.share(await resolveSessionId(api, text), parseDuration(expires), redact);
      print(options, share, () => share.url);
    });
}

function ls(): Command {
  return gatewayCommand("ls", "List valid links").action(async (options: GatewayOptions) => {
    const { shares } = await apiOf(options).shares();
    print(options, { shares }, () => list(shares));
  });
}

function list(shares: readonly Share[]): string {
  if (shares.length === 0) return "nothing is shared";
  const rows = shares.map(({ id, session, by, at, expiresAt, redact, suspended }) => [
    ...[id, session, by, ago(at), expiresAt],
    suspended ? "nothing: its maker is revoked" : redact ? "conversation" : "everything",
  ]);
  return table(["SHARE", "SESSION", "BY", "SINCE", "UNTIL", "SHOWS"], rows, stdout);
}

function rm(): Command {
  return gatewayCommand("rm", "Revoke a link and disconnect its readers")
    .argument("<share>", "id of the link, as listed by `share ls`")
    .action(async (id: string, options: GatewayOptions) => {
      await apiOf(options).unshare(id);
      print(options, { removed: id }, () => "");
    });
}
