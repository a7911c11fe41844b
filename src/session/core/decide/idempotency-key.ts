import { MetaKey } from "../../../protocol/extensions.ts";
import { type Frame, paramsOf } from "../../../protocol/frame.ts";
import { recordOf } from "../../../protocol/json-value.ts";
import { STATE_BUDGET } from "../state/state-budget.ts";

/** By this a client may send a prompt again without it running twice. */
export function promptKey(frame: Frame): string | null {
  const key = statedKey(frame);
  return typeof key === "string" && key.length <= STATE_BUDGET.promptKeyChars ? key : null;
}

/** Why a prompt's key cannot be one, if so. */
export function badPromptKey(frame: Frame): string | undefined {
  if (statedKey(frame) == null || promptKey(frame) !== null) return undefined;
  return `_meta["${MetaKey.idempotencyKey}"] must be a string of at most ${STATE_BUDGET.promptKeyChars} characters`;
}

function statedKey(frame: Frame): unknown {
  return recordOf(paramsOf(frame)._meta)[MetaKey.idempotencyKey];
}
