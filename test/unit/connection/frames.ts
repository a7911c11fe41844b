import { type Frame, isFault, readFrame } from "../../../src/protocol/frame.ts";

/** The frame of a JSON-RPC message. */
export function frameOf(message: object): Frame {
  const frame = readFrame(JSON.stringify({ jsonrpc: "2.0", ...message }));
  if (isFault(frame)) throw new Error(frame.fault);
  return frame;
}
