/**
 * The mechanism that follows every change of a workspace. A change names its kind once; the table says which effects
 * it has, and the effects run in the order of `Effect`.
 */

/** The kinds of changes. */
export type WorkspaceChange =
  /** A session requested or released a process. */
  | "process-request"
  /** Hosts connected or ended, or the settings or agents of hosts changed: other placements may be possible. */
  | "hosts"
  /** A host reported something that changes no placement. */
  | "host-report"
  | "host-load"
  | "host-gone"
  /** Messages to sessions were added, or are to be tried again. */
  | "session-messages"
  /** The connections of silent hosts were checked. */
  | "silence-check";

export type Effect =
  /** Places waiting sessions on hosts. */
  | "place"
  /** Sends the view to its watchers soon. */
  | "show"
  /** Writes the workspace's row of the index soon. */
  | "index"
  /** Checks from time to time whether silent hosts are still connected. */
  | "watch"
  /** Lets waiting agent selections look again. */
  | "wake"
  /** Delivers the messages to sessions. */
  | "deliver";

const EFFECTS: Readonly<Record<WorkspaceChange, readonly Effect[]>> = {
  "process-request": ["place", "show", "index", "watch"],
  hosts: ["place", "show", "index", "watch", "wake", "deliver"],
  "host-report": ["show", "index", "watch", "wake", "deliver"],
  "host-load": ["show"],
  "host-gone": ["show", "index", "watch", "wake"],
  "session-messages": ["deliver"],
  "silence-check": ["deliver"],
};

/** `deliver` is the only effect that takes time, and the last one of every change. */
export type EffectHandlers = Readonly<
  Record<Exclude<Effect, "deliver">, () => void> & { deliver: () => Promise<void> }
>;

/** Runs the effects of a change. All effects but the delivery have run when this returns its promise. */
export async function applyEffects(change: WorkspaceChange, handlers: EffectHandlers): Promise<void> {
  for (const effect of EFFECTS[change]) {
    if (effect === "deliver") await handlers.deliver();
    else handlers[effect]();
  }
}
