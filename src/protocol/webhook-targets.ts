import { type Reach, reachOf } from "./network-address.ts";
import { isSecureUrl } from "./secure-url.ts";

/**
 * Where webhooks of this deployment may lead. The gateway sends from its own network, so an address inside that network
 * would give administrators of workspaces a way in.
 */
export const WEBHOOK_TARGETS = ["public", "loopback", "any"] as const;
export type WebhookTargets = (typeof WEBHOOK_TARGETS)[number];

/** Reads the operator's variable WEBHOOK_TARGETS. */
export function readWebhookTargets(text: string | undefined): WebhookTargets {
  if (text === undefined || text === "") return "public";
  const found = WEBHOOK_TARGETS.find((name) => name === text);
  if (!found) throw new Error(`WEBHOOK_TARGETS must be one of ${WEBHOOK_TARGETS.join(", ")}`);
  return found;
}

const ALLOWED: Readonly<Record<WebhookTargets, readonly Reach[]>> = {
  public: ["public"],
  loopback: ["public", "loopback"],
  any: ["public", "loopback", "internal"],
};

/** Why no message may be sent to this address; undefined if one may. Every address gets the same words. */
export function webhookTargetRefusal(url: string, targets: WebhookTargets): string | undefined {
  if (!ALLOWED[targets].includes(reachOf(new URL(url).hostname)))
    return "Messages are sent to public addresses only, unless the operator allows others (WEBHOOK_TARGETS)";
  return isSecureUrl(url) ? undefined : "Messages are sent over https";
}
