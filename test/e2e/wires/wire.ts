/** A client's way to the gateway, or straight to an agent. Every transport carries whole JSON-RPC messages as texts. */

export type WireEvents = {
  /** The bytes of one message, as the transport delivered it. */
  onMessage: (bytes: Uint8Array) => void;
  /** The transport itself refused a message. */
  onRefusal: (reason: string) => void;
};

export interface Wire {
  send(text: string): void;
  /** Ends the connection as a client does; resolves to how the other side ended. */
  end(): Promise<string>;
  /** The characters of diagnostics beside the messages, on transports that have such a channel. */
  readonly diagnostics?: () => number;
  /** Whether all messages arrive in one stream, so that their order is the order in which they were sent. */
  readonly isOrdered: boolean;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** Throws if the bytes are not UTF-8. */
export function decode(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}
