import type { WebhookMessageType } from "../protocol/webhook-messages.ts";

/** Questions and reports of the parts to their workspace. The workspace connects its parts; they do not know each other. */
export type WorkspaceCallbacks = {
  /** When a session in the container was last active; null while one is. */
  containerLastUsed(): Promise<number | null>;
  /** Whether the container's host is connected, or within its grace period. */
  isContainerExpected(): boolean;
  /** The container of that start has ended, or could not be started. */
  containerEnded(startNumber: number, reason: string): Promise<void>;
  /** The container is about to be stopped: no more sessions may be placed on it. */
  containerDraining(): void;
  /** The workspace's secrets in clear text. */
  decryptSecrets(): Promise<Record<string, string>>;
  /** The webhooks want other types of messages than before. */
  wantedWebhookTypesChanged(types: WebhookMessageType[]): void;
};
