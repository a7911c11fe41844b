import { isRecord } from "../../../protocol/json-value.ts";
import type { Bounded } from "./bounded-values.ts";
import { type BoundedList, bound, boundList, idOf } from "./bounded-values.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** The agent's settings that a client can change, and the commands a client can use, as the agent last sent them. */
export type AgentSettings = {
  modes: Choice | null;
  models: Choice | null;
  configOptions: BoundedList | null;
  commands: BoundedList | null;
  /** `_meta` of the answer that opened the session. */
  meta: Bounded | null;
};

/** One of several: the mode the agent works in, the model it uses. */
export type Choice = { current: string | null; available: BoundedList };

/**
 * The mode or model that a request asks for. The answer to such a request is `{}`, and not every agent sends an update
 * as well, so the state remembers the choice until the answer comes.
 */
export function choiceIn(method: string, params: unknown): string | undefined {
  if (!isRecord(params)) return undefined;
  if (method === "session/set_mode") return idOf(params.modeId);
  if (method === "session/set_model") return idOf(params.modelId);
  return undefined;
}

/** The agent opened the session. A setting that the answer does not mention stays: updates may come before the answer. */
export function foldSetup(settings: AgentSettings, result: unknown, seq: number): void {
  if (!isRecord(result)) return;
  const { modes, models } = result;
  if (isRecord(modes)) settings.modes = choiceFrom(modes.currentModeId, modes.availableModes, MODES);
  if (isRecord(models)) settings.models = choiceFrom(models.currentModelId, models.availableModels, MODELS);
  setConfigOptions(settings, result.configOptions);
  if (isRecord(result._meta)) settings.meta = bound(result._meta, seq);
}

/**
 * The answer to a session/load or session/resume: the members of the agent's own answer as they are now. A list that
 * was too long to keep whole is left out, because a part of it would be wrong.
 */
export function currentSetup({ modes, models, configOptions }: AgentSettings): Record<string, unknown> {
  const setup: Record<string, unknown> = {};
  if (modes && modes.current !== null && !modes.available.truncated)
    setup.modes = { currentModeId: modes.current, availableModes: modes.available.items };
  if (models && models.current !== null && !models.available.truncated)
    setup.models = { currentModelId: models.current, availableModels: models.available.items };
  if (configOptions && !configOptions.truncated) setup.configOptions = configOptions.items;
  return setup;
}

export function setMode(settings: AgentSettings, mode: string | undefined): void {
  if (mode !== undefined) settings.modes = choose(settings.modes, mode);
}

export function setModel(settings: AgentSettings, model: string | undefined): void {
  if (model !== undefined) settings.models = choose(settings.models, model);
}

export function setConfigOptions(settings: AgentSettings, options: unknown): void {
  settings.configOptions = listOf(options, CONFIG) ?? settings.configOptions;
}

export function setCommands(settings: AgentSettings, commands: unknown): void {
  settings.commands = listOf(commands, COMMANDS) ?? settings.commands;
}

type ListKind = { readonly maxChars: number; readonly essentials: readonly string[] };

const MODES: ListKind = { maxChars: STATE_BUDGET.modesChars, essentials: ["id", "name", "description"] };
const MODELS: ListKind = {
  maxChars: STATE_BUDGET.modelsChars,
  essentials: ["modelId", "name", "description"],
};
const CONFIG: ListKind = {
  maxChars: STATE_BUDGET.configOptionsChars,
  essentials: ["id", "name", "type", "category", "currentValue"],
};
const COMMANDS: ListKind = { maxChars: STATE_BUDGET.commandsChars, essentials: ["name", "description"] };

function listOf(value: unknown, { maxChars, essentials }: ListKind): BoundedList | undefined {
  return boundList(value, maxChars, essentials);
}

function choiceFrom(current: unknown, available: unknown, kind: ListKind): Choice {
  return { current: idOf(current) ?? null, available: listOf(available, kind) ?? noItems() };
}

function choose(known: Choice | null, current: string): Choice {
  return { current, available: known?.available ?? noItems() };
}

function noItems(): BoundedList {
  return { items: [], total: 0, truncated: false };
}
