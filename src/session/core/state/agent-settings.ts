import { isRecord } from "../../../protocol/json-value.ts";
import { type Bounded, type BoundedList, bound, boundList, type Item, idOf } from "./bounded-values.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** The agent's settings that a client can change, and the commands a client can use, as the agent last sent them. */
export type AgentSettings = {
  modes: Choice | null;
  models: Choice | null;
  configOptions: BoundedList | null;
  /** The options that were changed since an opening last listed them. Absent: none. */
  changedOptions?: string[];
  commands: BoundedList | null;
  /** `_meta` of the answer that opened the session. */
  meta: Bounded | null;
};

/**
 * One of several: the mode the agent works in, the model it uses. `changed`: the current one was chosen since an opening
 * last told it.
 */
export type Choice = { current: string | null; available: BoundedList; changed?: true };

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
  if (isRecord(modes)) settings.modes = choiceFrom(modes.currentModeId, modes.availableModes, MODES, seq);
  if (isRecord(models))
    settings.models = choiceFrom(models.currentModelId, models.availableModels, MODELS, seq);
  if (Array.isArray(result.configOptions)) {
    settings.configOptions = listOf(result.configOptions, CONFIG, seq) ?? null;
    delete settings.changedOptions;
  }
  if (isRecord(result._meta)) settings.meta = bound(result._meta, seq);
}

export function setMode(settings: AgentSettings, mode: string | undefined): void {
  if (mode === undefined) return;
  settings.modes = choose(settings.modes, mode);
  setTwinOption(settings, "mode", mode);
}

export function setModel(settings: AgentSettings, model: string | undefined): void {
  if (model === undefined) return;
  settings.models = choose(settings.models, model);
  setTwinOption(settings, "model", model);
}

export function setConfigOptions(settings: AgentSettings, options: unknown, seq: number): void {
  const list = listOf(options, CONFIG, seq);
  if (!list) return;
  noteChanges(settings, list.items);
  settings.configOptions = list;
  const mode = twinValue(list, "mode", settings.modes);
  const model = twinValue(list, "model", settings.models);
  if (mode !== undefined) settings.modes = choose(settings.modes, mode);
  if (model !== undefined) settings.models = choose(settings.models, model);
}

/** The option of an agent that has its modes or models both as such and, in the newer form, as an option. */
function isTwin({ category }: Item, kind: "mode" | "model"): boolean {
  return category === kind;
}

/** A mode or model that was chosen in the older form holds in the newer form too, whether the agent says so or not. */
function setTwinOption(settings: AgentSettings, kind: "mode" | "model", value: string): void {
  const { configOptions: list } = settings;
  const twin = list?.items.find(
    (item) => isTwin(item, kind) && (list.truncated || hasValue(item.options, value)),
  );
  if (!list || !twin || twin.currentValue === value) return;
  const items = list.items.map((item) => (item === twin ? { ...item, currentValue: value } : item));
  noteChanges(settings, items);
  settings.configOptions = { ...list, items };
}

/** The mode or model that an option chooses, if the agent has it in the older form too and it is another one. */
function twinValue({ items }: BoundedList, kind: "mode" | "model", known: Choice | null): string | undefined {
  const value = items.find((item) => isTwin(item, kind))?.currentValue;
  const id = kind === "mode" ? "id" : "modelId";
  // A list that was too long lacks some of its items.
  const isKnown = known?.available.truncated || known?.available.items.some((item) => item[id] === value);
  return isKnown && typeof value === "string" && value !== known?.current ? value : undefined;
}

/** Whether a value is among those of an option, which may be in groups. */
function hasValue(options: unknown, value: string): boolean {
  if (!Array.isArray(options)) return false;
  return options.some((one) => isRecord(one) && (one.value === value || hasValue(one.options, value)));
}

function noteChanges(settings: AgentSettings, items: readonly Item[]): void {
  const before = new Map(settings.configOptions?.items.map(({ id, currentValue }) => [id, currentValue]));
  const changed = items.flatMap(({ id, currentValue }) =>
    typeof id === "string" && before.has(id) && before.get(id) !== currentValue ? id : [],
  );
  if (changed.length > 0)
    settings.changedOptions = [...new Set([...(settings.changedOptions ?? []), ...changed])].filter((id) =>
      items.some((item) => item.id === id),
    );
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

function listOf(value: unknown, { maxChars, essentials }: ListKind, seq?: number): BoundedList | undefined {
  return boundList(value, maxChars, essentials, seq);
}

function choiceFrom(current: unknown, available: unknown, kind: ListKind, seq: number): Choice {
  return { current: idOf(current) ?? null, available: listOf(available, kind, seq) ?? noItems() };
}

function choose(known: Choice | null, current: string): Choice {
  return { current, available: known?.available ?? noItems(), changed: true };
}

function noItems(): BoundedList {
  return { items: [], total: 0, truncated: false };
}
