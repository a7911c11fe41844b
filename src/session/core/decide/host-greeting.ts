import type { HostHead } from "../../../protocol/host-wire.ts";
import { allowsEverything } from "../../../protocol/opening-rules.ts";
import type { ProcessPlacement } from "../../../protocol/rpc.ts";
import type { SessionState } from "../state/state.ts";
import { unavailable } from "./agent-process.ts";
import type { Batch } from "./batch.ts";
import { drain, hostBack, hostGone, processReplaced } from "./host-departure.ts";

/**
 * A host's socket says hello. The workspace decides which host serves a process, and who serves its files and terminals;
 * the hello has to agree.
 */

export type HostHello = Extract<HostHead, { t: "hello" }>;

/** Whether a process that says hello is the one the session has or waits for. */
export function isWelcome(state: SessionState, { run, processRequest }: HostHello): boolean {
  return state.run?.id === run || (state.agent === "starting" && state.processRequest === processRequest);
}

/** The placement of the process that the session has. Undefined for a process that is new to the session. */
export function knownPlacement({ run }: SessionState, hello: HostHello): ProcessPlacement | undefined {
  if (run?.id !== hello.run) return undefined;
  return { host: run.host, io: run.io, opening: run.opening, duplicateChunks: run.duplicateChunks };
}

/** The token of a host's socket, by which two hosts of one name can be told apart. `host` is the name in the token. */
export type LinkToken = { subject: string; jti: string; host: string | undefined };

/**
 * Whether a socket may replace the living socket of its process at once, because both are of one host: by the same token,
 * or by a token with the host's name, which a renewal changes and no other host has. A token without a name could be
 * that of any host, so it has to wait until the socket before it is gone or silent.
 */
export function mayReplace(holder: LinkToken, newcomer: LinkToken): boolean {
  const isSameSubject = holder.subject === newcomer.subject;
  if (newcomer.host !== undefined) return isSameSubject || holder.host === undefined;
  return isSameSubject && holder.host === undefined && holder.jti === newcomer.jti;
}

/**
 * Takes the hello of a process that is welcome, for the known process or for a new one. Returns the reason for a
 * refusal, short enough for a close frame. A refusal changes nothing for the known process, which may be another than
 * the one that says hello. A new process is the host's answer to the request: refused, it serves nobody, so the session
 * does not wait for it.
 */
export function hostHello(batch: Batch, hello: HostHello, placement: ProcessPlacement): string | undefined {
  const { run, agent, host, root, processRequest, delivered, io = "host" } = hello;
  const isKnown = batch.state.run?.id === run;
  if (io !== placement.io) {
    const reason = `its host has files and terminals served by the ${io}, the workspace by the ${placement.io}`;
    if (!isKnown) unavailable(batch, `The agent could not be started: ${reason}`);
    return reason;
  }
  if (isKnown) {
    // If the session crashed meanwhile, the log does not have the loss of the earlier socket.
    hostGone(batch, "connection lost");
    hostBack(batch, run, host);
  } else {
    processReplaced(batch);
    const { io: clientIo, opening, closeMeans = "auto", duplicateChunks = "replay" } = placement;
    batch.fact("gateway", "runtime.connected", {
      ...{ run, agent, host, root, processRequest, delivered },
      ...(clientIo === "client" && { clientIo }),
      ...(!allowsEverything(opening) && { opening }),
      ...(closeMeans !== "auto" && { closeMeans }),
      ...(duplicateChunks !== "replay" && { duplicateChunks }),
    });
  }
  if (hello.draining) drain(batch, host);
  return undefined;
}
