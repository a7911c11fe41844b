import { existsSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import type { Need } from "../catalogue.ts";
import type { OfferedAgent } from "./offered-agents.ts";
import { Redactor } from "./redactor.ts";

/** What any program may want to know of where it runs: none of these is a key. */
const PLAIN =
  /^(PATH|HOME|USER|LOGNAME|SHELL|TERM|COLORTERM|TZ|TMPDIR|TMP|TEMP|LANG|LANGUAGE|LC_.*|XDG_.*|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS|(HTTPS?|ALL|NO)_PROXY|SystemRoot|ComSpec|PATHEXT|APPDATA|LOCALAPPDATA|USERPROFILE)$/i;
/** What configures the host: its token is nobody's business. */
const OWN = /^ACP_EDGE_/;
const SOUNDS_SECRET = /KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL/i;

type Variables = Record<string, string>;

/** For a program that is to know where it runs, and no more. */
export function plainEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => PLAIN.test(name)));
}

/**
 * What the processes of agents get to know: an agent what its entry declares, from the host's environment or
 * from the gateway's store, and the commands it runs in terminals none of the secrets. Knows all secrets, so
 * that it can take them out of what leaves the host.
 */
export class AgentEnvironment {
  readonly #host: Variables;
  readonly #agents: readonly OfferedAgent[];
  readonly #passed: readonly string[];
  readonly #redactor = new Redactor();
  /** From the gateway's store. */
  #store: Variables = {};

  constructor(host: NodeJS.ProcessEnv, agents: readonly OfferedAgent[], passed: readonly string[] = []) {
    this.#host = Object.fromEntries(
      Object.entries(host).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    );
    this.#agents = agents;
    this.#passed = passed;
    for (const [name, value] of Object.entries(this.#host))
      if (SOUNDS_SECRET.test(name) && this.#isUsed(name)) this.#redactor.learn(name, value);
  }

  /** The secrets of the workspace have changed; gives the agents that notice. */
  learn(store: Variables): OfferedAgent[] {
    const before = this.#store;
    this.#store = store;
    for (const [name, value] of Object.entries(store)) this.#redactor.learn(name, value);
    const changed = Object.keys({ ...before, ...store }).filter((name) => before[name] !== store[name]);
    return this.#agents.filter((agent) => changed.some((name) => this.#declared(agent).has(name)));
  }

  /** Whether the gateway has sent any. */
  get hasSecrets(): boolean {
    return Object.keys(this.#store).length > 0;
  }

  redact(text: string): string {
    return this.#redactor.redact(text);
  }

  get redactor(): Redactor {
    return this.#redactor;
  }

  ofAgent(agent: OfferedAgent): Variables {
    const declared = this.#declared(agent);
    return { ...this.#given((name) => agent.inherits === true || declared.has(name)), ...agent.env };
  }

  /** The commands an agent runs in terminals have no use for the agent's own keys. */
  ofTerminals(agent: OfferedAgent): Variables {
    return this.#given((name) => agent.inherits === true || this.#passed.includes(name));
  }

  /** Why an agent cannot be started, if so. */
  lacks(agent: OfferedAgent): string | undefined {
    const has = (need: string) =>
      need.startsWith("~/") ? existsSync(join(this.#host.HOME ?? "", need.slice(2))) : !!this.#value(need);
    const needs = (agent.requires ?? []).filter((need) => !ways(need).some(has));
    const reasons = [agent.missing ?? [], needs.map((need) => `needs ${anyOf(ways(need))}`)].flat();
    return reasons.length === 0 ? undefined : reasons.join("; ");
  }

  #given(alsoWanted: (name: string) => boolean): Variables {
    const names = Object.keys({ ...this.#host, ...this.#store }).filter((name) => !OWN.test(name));
    const given = names.filter((name) => PLAIN.test(name) || alsoWanted(name));
    const variables = Object.fromEntries(given.map((name) => [name, this.#value(name) ?? ""]));
    // Agents that are scripts find the Node that runs the host.
    return {
      ...variables,
      PATH: [dirname(process.execPath), variables.PATH].filter(Boolean).join(delimiter),
    };
  }

  /** The store is about this workspace, the host's environment about a machine: the former counts. */
  #value(name: string): string | undefined {
    return this.#store[name] ?? this.#host[name];
  }

  #declared({ requires = [], accepts = [] }: OfferedAgent): Set<string> {
    return new Set([...requires.flatMap(ways), ...accepts, ...this.#passed]);
  }

  #isUsed(name: string): boolean {
    return OWN.test(name) || this.#agents.some((agent) => agent.inherits || this.#declared(agent).has(name));
  }
}

function ways(need: Need): readonly string[] {
  return typeof need === "string" ? [need] : need;
}

function anyOf(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}
