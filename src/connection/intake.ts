import { roleOf } from "../protocol/caller.ts";
import type { ClientState } from "../protocol/client-state.ts";
import { clipMessage } from "../protocol/clipped-text.ts";
import { ErrorCode, errorResponse, INTERNAL_ERROR, type RpcError } from "../protocol/errors.ts";
import { type Frame, type FrameFault, isFault, type RequestFrame, readFrame } from "../protocol/frame.ts";
import { FAULTS, isIdTooLong, methodTooLong, wrongVersion } from "../protocol/jsonrpc-faults.ts";
import type { Limits } from "../protocol/limits.ts";
import { readHead } from "../protocol/message-head.ts";
import type { Client, Exchange } from "./client.ts";

/**
 * The result of a message. The intake sends the answers that are alike over every transport. The transport maps the other
 * results to its own means: a close code, an HTTP status, or an error response.
 */
export type IntakeResult =
  | { readonly kind: "taken" }
  /** The error response has been sent. */
  | { readonly kind: "too-long" }
  | { readonly kind: "id-too-long" }
  | { readonly kind: "uninitialized"; readonly frame: Frame }
  /** A message that cannot be answered, because it is no request, exceeds a quota. */
  | { readonly kind: "quota-exceeded"; readonly message: string; readonly retryAfterMs: number };

export type IntakeParts = {
  readonly client: Pick<Client, "state">;
  /** Counts a message against the client's quotas. */
  readonly admission: {
    admit(
      chars: number,
      frame: Frame | undefined,
      number: number | undefined,
    ): Admittance | Promise<Admittance>;
  };
  readonly router: {
    initialize(frame: RequestFrame, exchange: Exchange): Promise<void>;
    route(frame: Frame, exchange: Exchange): Promise<void>;
  };
  readonly limits: Pick<Limits, "frameChars" | "idChars" | "readerMessageChars">;
  /** Takes a JSON object that is no JSON-RPC message, if the transport knows such objects. */
  takeControl?(value: Frame["value"]): Promise<boolean>;
  /** Takes a frame that is meant for the transport itself; undefined for any other frame. */
  takeOwn?(frame: Frame): Promise<void> | undefined;
};

/** The quota that a message exceeds, if any. `unknown`: the subject's object, which counts, did not respond. */
export type Admittance = QuotaError | "unknown" | undefined;
export type QuotaError = RpcError & { data: { retryAfterMs: number } };

/** The one path of a client's message from its text to the router, over every transport. */
export class Intake {
  readonly #parts: IntakeParts;

  constructor(parts: IntakeParts) {
    this.#parts = parts;
  }

  async receive(text: string, exchange: Exchange): Promise<IntakeResult> {
    const { limits, admission } = this.#parts;
    if (text.length > limits.frameChars) return this.#refuseLong(text, exchange);
    if (!this.#isTooLongForReader(text.length)) {
      const read = readFrame(text);
      const isUnread = isFault(read) && read.fault === "too-complex";
      return isUnread
        ? this.#refuseComplex(text, read, exchange)
        : this.receiveFrame(read, text.length, exchange);
    }
    await admission.admit(text.length, undefined, exchange.number);
    return tooLong(limits.readerMessageChars, "null", exchange);
  }

  /** Nobody must wait for a message that is too complex: the agent gets an error in the place of an answer. */
  #refuseComplex(text: string, read: FrameFault, exchange: Exchange): Promise<IntakeResult> {
    const { kind, idText } = readHead(text) ?? {};
    if (idText === undefined || idText.length > this.#parts.limits.idChars + 2)
      return this.receiveFrame(read, text.length, exchange);
    const error = errorResponse(idText, FAULTS["too-complex"]);
    if (kind === "response") return this.receiveFrame(readFrame(error), text.length, exchange);
    const answer = () => exchange.answer(error);
    return this.receiveFrame(read, text.length, { ...exchange, answer });
  }

  /** Counts a message that is too long, and reads its beginning: nobody must wait for it. */
  async #refuseLong(text: string, exchange: Exchange): Promise<IntakeResult> {
    const { frameChars } = this.#parts.limits;
    const head = readHead(text);
    if (head?.kind !== "response") {
      const exceeded = await this.#parts.admission.admit(text.length, undefined, exchange.number);
      if (exceeded && exceeded !== "unknown") return quotaExceeded(exceeded);
      return tooLong(frameChars, head?.idText ?? "null", exchange);
    }
    // The agent that asked gets the error in place of the answer.
    const message = `The answer exceeds ${frameChars} characters`;
    const answer = errorResponse(head.idText, { code: ErrorCode.internal, message });
    return this.receiveFrame(readFrame(answer), text.length, exchange);
  }

  /** For a transport that has read the text already. Every message is counted, also one that is no frame. */
  async receiveFrame(read: Frame | FrameFault, chars: number, exchange: Exchange): Promise<IntakeResult> {
    const { admission, client, limits, router } = this.#parts;
    const frame = isFault(read) ? undefined : read;
    const exceeded = await admission.admit(chars, frame, exchange.number);
    if (exceeded === "unknown") {
      // Not knowing is not no: a message that nobody can answer goes on, and a request can be sent again.
      if (frame?.kind === "request") {
        refuse(frame, exchange, QUOTA_UNKNOWN);
        return TAKEN;
      }
    } else if (exceeded) {
      if (frame?.kind !== "request") return quotaExceeded(exceeded);
      exchange.answer(errorResponse(frame.idText, exceeded));
      return TAKEN;
    }
    if (this.#isTooLongForReader(chars))
      return tooLong(limits.readerMessageChars, frame?.idText ?? "null", exchange);
    const verdict = inspect(read, client.state, limits.idChars);
    switch (verdict.kind) {
      case "route":
        return this.#carryOut(
          verdict.frame,
          exchange,
          () => this.#parts.takeOwn?.(verdict.frame) ?? router.route(verdict.frame, exchange),
        );
      case "initialize":
        return this.#carryOut(verdict.frame, exchange, () => router.initialize(verdict.frame, exchange));
      case "refused":
        refuse(verdict.frame, exchange, verdict.error);
        return TAKEN;
      case "fault":
        exchange.answer(errorResponse(verdict.idText, FAULTS[verdict.fault]));
        return TAKEN;
      case "invalid":
        return this.#carryOut(verdict.frame, exchange, async () => {
          if (!(await this.#parts.takeControl?.(verdict.frame.value)))
            exchange.answer(errorResponse("null", FAULTS["not-object"]));
        });
      case "uninitialized":
      case "id-too-long":
        return verdict;
    }
  }

  #isTooLongForReader(chars: number): boolean {
    const { client, limits } = this.#parts;
    return chars > limits.readerMessageChars && roleOf(client.state.caller) === "observer";
  }

  /**
   * A message that fails here costs its sender an error, not the connection: a client that resumes would send the
   * message again on its next socket, and again.
   */
  async #carryOut(frame: Frame, exchange: Exchange, work: () => Promise<void>): Promise<IntakeResult> {
    try {
      await work();
    } catch (error) {
      console.error("message failed", { method: frame.method, error: clipMessage(String(error)) });
      refuse(frame, exchange, INTERNAL_ERROR);
    }
    return TAKEN;
  }
}

function refuse(frame: Frame, { answer }: Exchange, error: RpcError): void {
  if (frame.kind === "request") answer(errorResponse(frame.idText, error));
}

function quotaExceeded({ message, data }: QuotaError): IntakeResult {
  return { kind: "quota-exceeded", message, retryAfterMs: data.retryAfterMs };
}

function tooLong(maxChars: number, idText: string, { answer }: Exchange): IntakeResult {
  const message = `Message exceeds ${maxChars} characters`;
  answer(errorResponse(idText, { code: ErrorCode.invalidRequest, message }));
  return { kind: "too-long" };
}

/** How a connection classifies a message, before it acts on it. */
export type Inspection =
  | { readonly kind: "route"; readonly frame: Frame }
  | { readonly kind: "initialize"; readonly frame: RequestFrame }
  | { readonly kind: "fault"; readonly fault: FrameFault["fault"]; readonly idText: string }
  | { readonly kind: "invalid"; readonly frame: Frame }
  | { readonly kind: "id-too-long" }
  | { readonly kind: "refused"; readonly frame: Frame; readonly error: RpcError }
  | { readonly kind: "uninitialized"; readonly frame: Frame };

export function inspect(
  read: Frame | FrameFault,
  { initialized }: Pick<ClientState, "initialized">,
  idChars: number,
): Inspection {
  if (isFault(read)) return { kind: "fault", fault: read.fault, idText: askedBy(read, idChars) };
  if (read.kind === "invalid") return { kind: "invalid", frame: read };
  if (isIdTooLong(read, idChars)) return { kind: "id-too-long" };
  const error = methodTooLong(read, idChars) ?? wrongVersion(read);
  if (error) return { kind: "refused", frame: read, error };
  // A second `initialize` takes the same way: the router refuses it.
  if (isInitialize(read)) return { kind: "initialize", frame: read };
  return { kind: initialized ? "route" : "uninitialized", frame: read };
}

/** The id under which the sender of a faulty request waits; `null` if nobody can tell. */
function askedBy(read: FrameFault, idChars: number): string {
  const asked = read.fault === "ambiguous" && read.frame.kind === "request" ? read.frame : undefined;
  return asked && !isIdTooLong(asked, idChars) ? asked.idText : "null";
}

function isInitialize(frame: Frame): frame is RequestFrame {
  return frame.method === "initialize" && frame.kind === "request" && frame.value.id !== null;
}

/** Answers a request that came before `initialize`. Other messages before `initialize` are ignored. */
export function refuseUninitialized(frame: Frame, exchange: Exchange): void {
  const error = { code: ErrorCode.invalidRequest, message: "The connection is not initialized" };
  refuse(frame, exchange, error);
}

const QUOTA_UNKNOWN: RpcError = {
  code: ErrorCode.internal,
  message: "The quota could not be checked: try again",
  data: { retryAfterMs: 1000 },
};

const TAKEN: IntakeResult = { kind: "taken" };
