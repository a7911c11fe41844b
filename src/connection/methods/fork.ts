import { z } from "zod";
import { COPY_RESPONSE_MS, callObject } from "../../durable/object-call.ts";
import { sessionObject } from "../../durable/objects.ts";
import { translateOpening } from "../../protocol/dialects/index.ts";
import { ErrorCode } from "../../protocol/errors.ts";
import { MetaKey } from "../../protocol/extensions.ts";
import type { Frame } from "../../protocol/frame.ts";
import { isUuid } from "../../protocol/ids.ts";
import { isAbsolutePath, PATH_CHARS } from "../../protocol/reader-messages.ts";
import { rpcErrorOf, unknownSession } from "../../protocol/refusal.ts";
import { schemaFault } from "../../protocol/schema-fault.ts";
import { RPC_VERSION } from "../../protocol/versions.ts";
import type { ConnectionInfo, LocalAnswer } from "./local-answer.ts";

/** `session/fork`: opens a session with the history of another, up to an event or to its end. */
export async function forkForClient(
  env: Env,
  { connection, caller, subscriptions, login, reserve }: ConnectionInfo,
  frame: Frame,
): Promise<LocalAnswer> {
  const canonical = translateOpening(frame);
  if ("refuse" in canonical) return { error: canonical.refuse };
  const read = PARAMS.safeParse(canonical.frame.value.params);
  if (!read.success) return { error: { code: ErrorCode.invalidParams, message: schemaFault(read.error) } };
  const { sessionId: from, _meta, ...params } = read.data;
  if (!isUuid(from)) return { error: rpcErrorOf(unknownSession(from)) };
  const { [MetaKey.at]: at, ...meta } = _meta ?? {};
  const opening = { ...params, ...(Object.keys(meta).length > 0 ? { _meta: meta } : {}) };
  const reserved = await reserve();
  if ("error" in reserved) return reserved;
  const { sessionId } = reserved;
  const order = {
    ...{ v: RPC_VERSION, sessionId, from, at: at ?? null },
    ...{ connection, caller, opening: JSON.stringify(opening), subscriptions },
    ...(login && { login }),
  };
  const fork = await callObject(
    () => sessionObject(env, caller.tenant, sessionId),
    (target) => target.fork(order),
    { timeoutMs: COPY_RESPONSE_MS },
  );
  if (!fork.ok) return { error: rpcErrorOf(fork.refusal) };
  const setup = JSON.parse(fork.value.setup) as object;
  return { result: { sessionId, ...setup }, attached: { sessionId, attachment: fork.value.attach } };
}

const PARAMS = z.looseObject({
  sessionId: z.string(),
  cwd: z.string().max(PATH_CHARS).refine(isAbsolutePath, "must be an absolute path"),
  _meta: z.looseObject({ [MetaKey.at]: z.number().int().min(1).nullish() }).nullish(),
});
