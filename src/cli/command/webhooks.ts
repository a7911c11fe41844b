import { Command } from "commander";
import type { Webhook } from "../gateway/api-client.ts";
import { ago, brief, table } from "../text-format.ts";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import { print, printNote, stdout } from "./output.ts";
import { apiOf, resolveWorkspace } from "./resolve.ts";

/** Who else is told of what happens in a workspace. */
export function webhooksCommand(): Command {
  return new Command("webhooks")
    .description("Webhooks of a workspace: list, add, remove, test")
    .addCommand(ls(), { isDefault: true })
    .addCommand(add())
    .addCommand(rm())
    .addCommand(test());
}

function ls(): Command {
  return gatewayCommand("ls", "List webhooks and how their deliveries go").action(
    async (options: GatewayOptions) => {
      const { webhooks } = await apiOf(options).webhooks(await resolveWorkspace(options));
      print(options, { webhooks }, () => list(webhooks));
    },
  );
}

function list(webhooks: readonly Webhook[]): string {
  if (webhooks.length === 0) return "there are no webhooks";
  const rows = webhooks.map((one) => [
    one.id,
    brief(one.url, 80),
    one.events.join(","),
    one.links ? "yes" : "no",
    stateOf(one),
    String(one.waiting),
    String(one.dropped),
  ]);
  return table(["WEBHOOK", "URL", "EVENTS", "LINKS", "STATE", "WAITING", "DROPPED"], rows, stdout);
}

function stateOf({ failingSince, lastDelivery }: Webhook): string {
  if (lastDelivery === null) return "not used yet";
  const { status, at } = lastDelivery;
  if (failingSince === null) return `${status}, ${ago(at)} ago`;
  return `failing for ${ago(failingSince)}: ${status ?? "no answer"}`;
}

type AddOptions = GatewayOptions & { events?: string; links?: boolean };

function add(): Command {
  return gatewayCommand("add", "Add a webhook; prints its secret, which is shown this once")
    .argument("<address>", "where messages are posted: https, or http on this machine")
    .option("--events <types>", "permission.pending, turn.ended, agent.failed; by default all")
    .option("--links", "permission requests come with links that answer them")
    .action(async (url: string, options: AddOptions) => {
      const events = options.events?.split(",").map((type) => type.trim());
      const order = { url, events, links: options.links };
      const made = await apiOf(options).addWebhook(await resolveWorkspace(options), order);
      print(options, made, () => {
        printNote(`webhook ${made.id}, its secret:`);
        return made.secret;
      });
    });
}

function rm(): Command {
  return gatewayCommand("rm", "Remove a webhook, with what waits for it")
    .argument("<webhook>", "its id, as listed")
    .action(async (id: string, options: GatewayOptions) => {
      await apiOf(options).removeWebhook(await resolveWorkspace(options), id);
      print(options, { removed: id }, () => "");
    });
}

function test(): Command {
  return gatewayCommand("test", "Send a webhook a ping")
    .argument("<webhook>", "its id, as listed")
    .action(async (id: string, options: GatewayOptions) => {
      await apiOf(options).testWebhook(await resolveWorkspace(options), id);
      print(options, { queued: id }, () => "");
    });
}
