import type { SessionUpdate } from "@agentclientprotocol/sdk";

/** The text the agent has said, end to end. */
export function textOf(updates: SessionUpdate[]): string {
  return updates
    .map((update) =>
      update.sessionUpdate === "agent_message_chunk" && update.content.type === "text"
        ? update.content.text
        : "",
    )
    .join("");
}

/** The numbers of a `/stream`, even where a replay has joined its chunks. */
export function streamed(updates: SessionUpdate[]): number[] {
  return [...textOf(updates).matchAll(/(\d{6}) /g)].map(([, number]) => Number(number));
}

/** The numbers that `streamed` finds when no chunk is lost, repeated or out of order. */
export function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
