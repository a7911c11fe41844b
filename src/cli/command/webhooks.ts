import { Command } from "commander";
import type { WebhookInfo } from "../../protocol/rest.ts";
import { ago, brief, table } from "../text-format.ts";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import { print, printNote, stdout } from "./output.ts";
import { apiOf, resolveWorkspace } from "./resolve.ts";

/** The webhooks that report events of a workspace to other systems. */
export function webhooksCommand(): Command {
  return new Command("webhooks")
    .description("List, add, adopt, remove and test webhooks of a workspace")
    .addCommand(ls(), { isDefault: true })
    .addCommand(add())
    .addCommand(adopt())
    .addCommand(rm())
    .addCommand(test());
}

function ls(): Command {
  return gatewayCommand("ls", "List webhooks and the state of their deliveries").action(
    async (options: GatewayOptions) => {
      const { webhooks } = await apiOf(options).webhooks(await resolveWorkspace(options));
      print(options, { webhooks }, () => list(webhooks));
    },
  );
}

function list(webhooks: readonly WebhookInfo[]): string {
  if (webhooks.length === 0) return "no webhooks";
  const rows = webhooks.map((webhook) => [
    webhook.id,
    brief(webhook.url, 80),
    webhook.events.join(","),
    webhook.links ? "yes" : "no",
    webhook.by ?? "unknown",
    stateOf(webhook),
    String(webhook.waiting),
    String(webhook.dropped),
  ]);
  return table(["WEBHOOK", "URL", "EVENTS", "LINKS", "BY", "STATE", "WAITING", "DROPPED"], rows, stdout);
}

function stateOf({ failingSince, lastDelivery, pausedReason }: WebhookInfo): string {
  if (pausedReason !== null) return `paused: ${pausedReason}`;
  if (lastDelivery === null) return "not used yet";
  const { status, at } = lastDelivery;
  if (failingSince === null) return `${status}, ${ago(at)} ago`;
  return `failing for ${ago(failingSince)}: ${status ?? "no answer"}`;
}

type AddOptions = GatewayOptions & { events?: string; links?: boolean };

function add(): Command {
  return gatewayCommand("add", "Add a webhook and print its secret, which is shown only once")
    .argument("<address>", "address that receives the messages: https, or http on this machine")
    .option(
      "--events <types>",
      "permission.pending, question.pending, turn.ended, agent.failed (default: all)",
    )
    .option("--links", "include links that answer a permission request or a question in its message")
    .action(async (url: string, options: AddOptions) => {
      const events = options.events?.split(",").map((type) => type.trim());
      const order = { url, events, links: options.links };
      const made = await apiOf(options).addWebhook(await resolveWorkspace(options), order);
      print(options, made, () => {
        printNote(`webhook ${made.id} has this secret:`);
        return made.secret;
      });
    });
}

function adopt(): Command {
  return gatewayCommand("adopt", "Make a webhook your own; a webhook whose maker is revoked goes on")
    .argument("<webhook>", "id of the webhook, as listed by `webhooks ls`")
    .action(async (id: string, options: GatewayOptions) => {
      const adopted = await apiOf(options).adoptWebhook(await resolveWorkspace(options), id);
      print(options, adopted, () => "");
    });
}

function rm(): Command {
  return gatewayCommand("rm", "Remove a webhook and its undelivered messages")
    .argument("<webhook>", "id of the webhook, as listed by `webhooks ls`")
    .action(async (id: string, options: GatewayOptions) => {
      await apiOf(options).removeWebhook(await resolveWorkspace(options), id);
      print(options, { removed: id }, () => "");
    });
}

function test(): Command {
  return gatewayCommand("test", "Send a ping to a webhook")
    .argument("<webhook>", "id of the webhook, as listed by `webhooks ls`")
    .action(async (id: string, options: GatewayOptions) => {
      await apiOf(options).testWebhook(await resolveWorkspace(options), id);
      print(options, { queued: id }, () => "");
    });
}
