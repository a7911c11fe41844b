import { Tables } from "../durable/schema.ts";
import type { Limits } from "../protocol/limits.ts";
import type { Settings, SettingsChange } from "../protocol/workspace-settings.ts";
import { WORKSPACE_SCHEMA } from "./schema.ts";
import { defaultSettings } from "./settings.ts";

/** The workspace's tenant and name. Alarms and sockets carry neither, so the workspace stores both. */
export type WorkspaceIdentity = { tenant: string; workspace: string };

/**
 * The identity, the settings and single values of the workspace. Reading creates nothing: a workspace that nobody
 * has configured and no host has served has no tables.
 */
export class WorkspaceStore {
  readonly #sql: SqlStorage;
  readonly #tables: Tables;
  readonly #limits: Limits;

  constructor(storage: DurableObjectStorage, limits: Limits) {
    this.#sql = storage.sql;
    this.#tables = new Tables(storage, WORKSPACE_SCHEMA);
    this.#limits = limits;
  }

  get exists(): boolean {
    return this.#tables.exist;
  }

  create({ tenant, workspace }: WorkspaceIdentity): void {
    if (this.exists) return;
    this.#tables.create();
    this.set("identity", { tenant, workspace });
  }

  identity(): WorkspaceIdentity | undefined {
    return this.get<WorkspaceIdentity>("identity");
  }

  settings(): Settings {
    const settings = defaultSettings(this.#limits);
    if (!this.exists) return settings;
    const rows = this.#sql.exec<{ name: string; value: string }>("SELECT name, value FROM setting").toArray();
    const stored = Object.fromEntries(rows.map(({ name, value }) => [name, JSON.parse(value) as unknown]));
    const known = Object.keys(settings).filter((name) => name in stored);
    return { ...settings, ...Object.fromEntries(known.map((name) => [name, stored[name]])) };
  }

  changeSettings(change: SettingsChange): void {
    for (const [name, value] of Object.entries(change)) if (value !== undefined) this.set(name, value);
  }

  get<T>(name: string): T | undefined {
    if (!this.exists) return undefined;
    const [row] = this.#sql
      .exec<{ value: string }>("SELECT value FROM setting WHERE name = ?", name)
      .toArray();
    return row && (JSON.parse(row.value) as T);
  }

  set(name: string, value: unknown): void {
    const text = JSON.stringify(value);
    this.#sql.exec("INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)", name, text);
  }
}
