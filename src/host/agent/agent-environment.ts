import { existsSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import type { Need } from "../catalogue.ts";
import { isPlainVariable } from "../os/plain-environment.ts";
import { Redactor } from "../redaction/redactor.ts";
import { type Secret, secretsIn, secretsOfEnvironment } from "../redaction/secret-values.ts";
import type { OfferedAgent } from "./offered-agents.ts";

/** Variables that configure the host. They include its token, so no agent receives them. */
const OWN = /^ACP_EDGE_/;

type Variables = Record<string, string>;

/**
 * The environment variables of agent processes. An agent receives the variables that its catalogue entry declares,
 * from the host's environment or from the workspace's secrets. The commands that it runs in terminals receive no
 * secrets. The redactor learns every secret, so that none leaves the host in output or logs.
 */
export class AgentEnvironment {
  readonly #host: Variables;
  readonly #agents: readonly OfferedAgent[];
  readonly #passed: readonly string[];
  readonly #redactor = new Redactor();
  /** The workspace's secrets, as the gateway sent them. */
  #secrets: Variables = {};

  constructor(host: NodeJS.ProcessEnv, agents: readonly OfferedAgent[], passed: readonly string[] = []) {
    this.#host = Object.fromEntries(
      Object.entries(host).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    );
    this.#agents = agents;
    this.#passed = passed;
    this.#learn(secretsOfEnvironment(this.#host, passed));
    for (const agent of agents) this.#learn(secretsOfEnvironment(agent.env ?? {}));
  }

  /** Replaces the workspace's secrets and returns the agents whose environment changes. */
  setSecrets(secrets: Variables): OfferedAgent[] {
    const before = this.#secrets;
    this.#secrets = secrets;
    this.#learn(Object.entries(secrets).flatMap(([name, value]) => secretsIn(name, value)));
    const changed = Object.keys({ ...before, ...secrets }).filter((name) => before[name] !== secrets[name]);
    return this.#agents.filter((agent) =>
      changed.some((name) => agent.inherits === true || this.#declared(agent).has(name)),
    );
  }

  /** Whether the gateway has sent any secrets. */
  get hasSecrets(): boolean {
    return Object.keys(this.#secrets).length > 0;
  }

  redact(text: string): string {
    return this.#redactor.redact(text);
  }

  get redactor(): Redactor {
    return this.#redactor;
  }

  ofAgent(agent: OfferedAgent): Variables {
    const declared = this.#declared(agent);
    return { ...this.#select((name) => agent.inherits === true || declared.has(name)), ...agent.env };
  }

  /** The commands that an agent runs in terminals do not need the agent's own keys. */
  ofTerminals(agent: OfferedAgent): Variables {
    return this.#select((name) => agent.inherits === true || this.#passed.includes(name));
  }

  /** Why the agent cannot be started; undefined if it can. */
  unavailableReason(agent: OfferedAgent): string | undefined {
    const has = (need: string) =>
      need.startsWith("~/") ? existsSync(join(this.#host.HOME ?? "", need.slice(2))) : !!this.#value(need);
    const unmet = (agent.requires ?? []).filter((need) => !alternatives(need).some(has));
    const reasons = [agent.missing ?? [], unmet.map((need) => `needs ${anyOf(alternatives(need))}`)].flat();
    return reasons.length === 0 ? undefined : reasons.join("; ");
  }

  /** The plain variables, and those that `isGranted` names. */
  #select(isGranted: (name: string) => boolean): Variables {
    const names = Object.keys({ ...this.#host, ...this.#secrets }).filter((name) => !OWN.test(name));
    const selected = names.filter((name) => isPlainVariable(name) || isGranted(name));
    const variables = Object.fromEntries(selected.map((name) => [name, this.#value(name) ?? ""]));
    // Agents that are scripts run on the Node that runs the host.
    return {
      ...variables,
      PATH: [dirname(process.execPath), variables.PATH].filter(Boolean).join(delimiter),
    };
  }

  /** A secret of this workspace overrides a variable of the machine. */
  #value(name: string): string | undefined {
    return this.#secrets[name] ?? this.#host[name];
  }

  #declared({ requires = [], accepts = [] }: OfferedAgent): Set<string> {
    return new Set([...requires.flatMap(alternatives), ...accepts, ...this.#passed]);
  }

  #learn(secrets: readonly Secret[]): void {
    for (const { name, value } of secrets) this.#redactor.learn(name, value);
  }
}

function alternatives(need: Need): readonly string[] {
  return typeof need === "string" ? [need] : need;
}

function anyOf(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}
