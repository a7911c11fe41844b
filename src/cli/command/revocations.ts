import { Command } from "commander";
import type { Revocation } from "../../protocol/rest-tenant.ts";
import type { RevocationReach } from "../../protocol/revocation-reach.ts";
import { CliError, EXIT } from "../cli-error.ts";
import { ago, table } from "../text-format.ts";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import { parseDuration } from "./duration.ts";
import { print, printNote, stdout } from "./output.ts";
import { apiOf } from "./resolve.ts";

/** Revocations end the access of a token or a subject, with everything they have made, or all access to a session. */
export function revocationsCommand(): Command {
  return new Command("revocations")
    .description("List, make and lift revocations")
    .addCommand(ls(), { isDefault: true })
    .addCommand(make())
    .addCommand(lift());
}

function ls(): Command {
  return gatewayCommand("ls", "List revocations").action(async (options: GatewayOptions) => {
    const { revocations } = await apiOf(options).revocations();
    print(options, { revocations }, () => list(revocations));
  });
}

function list(revocations: readonly Revocation[]): string {
  if (revocations.length === 0) return "nothing is revoked";
  const rows = revocations.map(({ id, kind, value, workspace, by, at, until }) => [
    ...[id, kind, value, workspace ?? "all", by, ago(at), until ?? "until lifted"],
  ]);
  return table(["REVOCATION", "KIND", "VALUE", "WORKSPACE", "BY", "SINCE", "UNTIL"], rows, stdout);
}

type MakeOptions = GatewayOptions & {
  subject?: string;
  jti?: string;
  session?: string;
  for?: string;
  only?: boolean;
};

function make(): Command {
  return gatewayCommand("make", "Revoke a subject, a token or a session, and print what that has ended")
    .option("--subject <name>", "all tokens of this subject, and everything made with them")
    .option("--jti <id>", "the token with this id, and everything made with it; or a link with this id")
    .option("--session <id>", "all access to this session, except that of administrators")
    .option("--for <duration>", "how long the revocation lasts: 30m, 12h, 7d (default: until it is lifted)")
    .option("--only", "with --workspace: only tokens that are valid in that workspace and nowhere else")
    .action(async (options: MakeOptions) => {
      const made = await apiOf(options).revoke(orderOf(options));
      print(options, made, () => {
        for (const line of reachedLines(made.reached)) printNote(line);
        return made.id;
      });
    });
}

function orderOf({ subject, jti, session, only, workspace, for: duration }: MakeOptions): object {
  const targets = Object.entries({ subject, jti, session }).filter(([, value]) => value !== undefined);
  if (targets.length !== 1) throw new CliError("give one of --subject, --jti and --session", EXIT.usage);
  if (only && workspace === undefined) throw new CliError("--only needs --workspace", EXIT.usage);
  const until = duration && new Date(Date.now() + parseDuration(duration) * 1000).toISOString();
  return { ...Object.fromEntries(targets), ...(only && { workspace }), ...(until && { until }) };
}

/** The findings of a revocation, one line for each thing or kind of thing. */
function reachedLines(reached: RevocationReach): string[] {
  const { shares, answerLinks, webhooks, sockets, hosts, unconfirmed } = reached;
  const lines = [
    ...(sockets > 0 ? [`ended ${sockets} connections`] : []),
    ...(hosts > 0 ? [`ended ${hosts} connections of hosts`] : []),
    ...shares.map((id) => `share ${id} does not work any more`),
    ...answerLinks.map((id) => `answer links ${id} do not work any more`),
    ...webhooks.map(({ workspace, id }) => `webhook ${id} of ${workspace} pauses`),
  ];
  const late = `${unconfirmed} of these are not confirmed yet: the gateway repeats the order`;
  return [
    ...(lines.length > 0
      ? lines
      : ["nothing of that name is open or was made: check the name if you expected more"]),
    ...(unconfirmed > 0 ? [late] : []),
  ];
}

function lift(): Command {
  return gatewayCommand("lift", "Lift a revocation: links work again, and webhooks go on")
    .argument("<revocation>", "id of the revocation, as listed by `revocations ls`")
    .action(async (id: string, options: GatewayOptions) => {
      await apiOf(options).liftRevocation(id);
      print(options, { lifted: id }, () => "");
    });
}
