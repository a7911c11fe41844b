import { env } from "cloudflare:workers";
import type { AcpConnection } from "../../src/connection/acp-connection.ts";
import type { AcpSession } from "../../src/session/acp-session.ts";
import type { SubjectState } from "../../src/tenant/subject/subject-state.ts";
import type { TenantState } from "../../src/tenant/tenant-state.ts";
import type { WorkspaceState } from "../../src/workspace/workspace-state.ts";

/**
 * Faults of calls between objects, on the caller's side, where the platform's own errors appear: the object goes on, and
 * its sockets stay open.
 */

type Classes = {
  connection: AcpConnection;
  session: AcpSession;
  subject: SubjectState;
  tenant: TenantState;
  workspace: WorkspaceState;
};

/** A method of an object, such as `session.open`. */
export type Method = { [K in keyof Classes]: `${K}.${string & keyof Classes[K]}` }[keyof Classes];

/**
 * `unsent`: the call does not reach the object. `unanswered`: the object carries the call out, and its response is lost.
 * `overloaded`: the object takes no calls. `failed`: the object itself throws an error. `silent`: the object does not
 * respond.
 */
export type Fault = "unsent" | "unanswered" | "overloaded" | "failed" | "silent";

const BINDINGS = {
  connection: "ACP_CONNECTION_DO",
  session: "ACP_SESSION_DO",
  subject: "SUBJECT_DO",
  tenant: "TENANT_DO",
  workspace: "WORKSPACE_STATE_DO",
} as const;

type Call = (...args: unknown[]) => Promise<unknown>;

const restorers: (() => void)[] = [];

/** Lets the next calls of a method fail, until `endFaults`. Returns how often the method has been called. */
export function failCalls(method: Method, fault: Fault, times = 1): () => number {
  const [kind, name] = method.split(".") as [keyof Classes, string];
  const binding = BINDINGS[kind];
  const objects = env[binding];
  let calls = 0;
  const fail = async (call: () => Promise<unknown>) => {
    calls += 1;
    if (calls > times) return call();
    if (fault === "unanswered") await call();
    if (fault === "silent") return new Promise(() => {});
    throw Object.assign(new Error(`a test's fault: ${fault}`), MARKS[fault]);
  };
  // A method of a stub is called on the stub itself: even `apply` would be taken for a name over there.
  const stubWithFault = (stub: object) =>
    new Proxy(stub, {
      get: (_, key) => {
        const methods = stub as Record<string | symbol, Call>;
        if (typeof methods[key] !== "function") return methods[key];
        const call = (...args: unknown[]) => methods[key]!(...args);
        return key === name ? (...args: unknown[]) => fail(() => call(...args)) : call;
      },
    });
  const replaced = new Proxy(objects, {
    get: (_, key) =>
      key === "getByName"
        ? (...args: [string]) => stubWithFault(objects.getByName(...args))
        : Reflect.get(objects, key).bind(objects),
  });
  Object.assign(env, { [binding]: replaced });
  restorers.push(() => Object.assign(env, { [binding]: objects }));
  return () => calls;
}

export function endFaults(): void {
  for (const restore of restorers.splice(0).reverse()) restore();
}

/** The properties that the platform gives to errors of calls. */
const MARKS = {
  unsent: { retryable: true },
  unanswered: { durableObjectReset: true },
  overloaded: { overloaded: true, retryable: true },
  failed: { remote: true },
};
