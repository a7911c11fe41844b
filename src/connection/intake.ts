import type { ClientState } from "../protocol/client-state.ts";
import { ErrorCode, errorResponse, type RpcError } from "../protocol/errors.ts";
import { type Frame, type FrameFault, isFault, type RequestFrame, readFrame } from "../protocol/frame.ts";
import { FAULTS, isIdTooLong } from "../protocol/jsonrpc-faults.ts";
import type { Limits } from "../protocol/limits.ts";
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
  /** Counts a message against the client's quotas. Resolves to the quota that it exceeds, if any. */
  readonly admission: {
    admit(
      chars: number,
      frame: Frame | undefined,
      number: number | undefined,
    ): QuotaError | undefined | Promise<QuotaError | undefined>;
  };
  readonly router: {
    initialize(frame: RequestFrame, exchange: Exchange): Promise<void>;
    route(frame: Frame, exchange: Exchange): Promise<void>;
  };
  readonly limits: Pick<Limits, "frameChars" | "idChars">;
  /** Takes a JSON object that is no JSON-RPC message, if the transport knows such objects. */
  takeControl?(value: Frame["value"]): Promise<boolean>;
  /** Takes a frame that is meant for the transport itself; undefined for any other frame. */
  takeOwn?(frame: Frame): Promise<void> | undefined;
};

type QuotaError = RpcError & { data: { retryAfterMs: number } };

/** The one path of a client's message from its text to the router, over every transport. */
export class Intake {
  readonly #parts: IntakeParts;

  constructor(parts: IntakeParts) {
    this.#parts = parts;
  }

  async receive(text: string, exchange: Exchange): Promise<IntakeResult> {
    const { frameChars } = this.#parts.limits;
    if (text.length <= frameChars) return this.receiveFrame(readFrame(text), text.length, exchange);
    const message = `Message exceeds ${frameChars} characters`;
    exchange.answer(errorResponse("null", { code: ErrorCode.invalidRequest, message }));
    return { kind: "too-long" };
  }

  /** For a transport that has read the text already. Every message is counted, also one that is no frame. */
  async receiveFrame(read: Frame | FrameFault, chars: number, exchange: Exchange): Promise<IntakeResult> {
    const { admission, client, limits, router } = this.#parts;
    const frame = isFault(read) ? undefined : read;
    const exceeded = await admission.admit(chars, frame, exchange.number);
    if (exceeded) {
      if (frame?.kind !== "request")
        return {
          kind: "quota-exceeded",
          message: exceeded.message,
          retryAfterMs: exceeded.data.retryAfterMs,
        };
      exchange.answer(errorResponse(frame.idText, exceeded));
      return TAKEN;
    }
    const verdict = inspect(read, client.state, limits.idChars);
    switch (verdict.kind) {
      case "route":
        await (this.#parts.takeOwn?.(verdict.frame) ?? router.route(verdict.frame, exchange));
        return TAKEN;
      case "initialize":
        await router.initialize(verdict.frame, exchange);
        return TAKEN;
      case "fault":
        exchange.answer(errorResponse("null", FAULTS[verdict.fault]));
        return TAKEN;
      case "invalid":
        if (!(await this.#parts.takeControl?.(verdict.frame.value)))
          exchange.answer(errorResponse("null", FAULTS["not-object"]));
        return TAKEN;
      case "uninitialized":
      case "id-too-long":
        return verdict;
    }
  }
}

/** How a connection classifies a message, before it acts on it. */
export type Inspection =
  | { readonly kind: "route"; readonly frame: Frame }
  | { readonly kind: "initialize"; readonly frame: RequestFrame }
  | { readonly kind: "fault"; readonly fault: FrameFault["fault"] }
  | { readonly kind: "invalid"; readonly frame: Frame }
  | { readonly kind: "id-too-long" }
  | { readonly kind: "uninitialized"; readonly frame: Frame };

export function inspect(
  read: Frame | FrameFault,
  { initialized }: Pick<ClientState, "initialized">,
  idChars: number,
): Inspection {
  if (isFault(read)) return { kind: "fault", fault: read.fault };
  if (read.kind === "invalid") return { kind: "invalid", frame: read };
  if (isIdTooLong(read, idChars)) return { kind: "id-too-long" };
  // A second `initialize` takes the same way: the router refuses it.
  if (isInitialize(read)) return { kind: "initialize", frame: read };
  return { kind: initialized ? "route" : "uninitialized", frame: read };
}

function isInitialize(frame: Frame): frame is RequestFrame {
  return frame.method === "initialize" && frame.kind === "request" && frame.value.id !== null;
}

/** Answers a request that came before `initialize`. Other messages before `initialize` are ignored. */
export function refuseUninitialized(frame: Frame, { answer }: Exchange): void {
  const error = { code: ErrorCode.invalidRequest, message: "The connection is not initialized" };
  if (frame.kind === "request") answer(errorResponse(frame.idText, error));
}

const TAKEN: IntakeResult = { kind: "taken" };
