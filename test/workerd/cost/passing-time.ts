import {
  evictDurableObject,
  listDurableObjectIds,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";

/** Lets time pass: every alarm of every object runs at its time, one after the other. */
export async function passTime(ms: number): Promise<void> {
  const end = Date.now() + ms;
  for (;;) {
    const next = await earliestAlarm();
    if (!next || next.at > end) break;
    vi.setSystemTime(Math.max(next.at, Date.now()));
    await runDurableObjectAlarm(next.stub);
  }
  vi.setSystemTime(end);
}

async function earliestAlarm(): Promise<{ at: number; stub: DurableObjectStub } | undefined> {
  let earliest: { at: number; stub: DurableObjectStub } | undefined;
  for (const namespace of namespaces()) {
    for (const id of await listDurableObjectIds(namespace)) {
      const stub = namespace.get(id);
      const at = await runInDurableObject(stub, (_, { storage }) => storage.getAlarm());
      if (at !== null && at < (earliest?.at ?? Number.POSITIVE_INFINITY)) earliest = { at, stub };
    }
  }
  return earliest;
}

/** Evicts every object of a turn: sessions, connections and workspaces. Their sockets hibernate. */
export async function evictBusyObjects(): Promise<void> {
  const busy: readonly unknown[] = [env.ACP_CONNECTION_DO, env.ACP_SESSION_DO, env.WORKSPACE_STATE_DO];
  // An object that is not running cannot be evicted.
  for (const namespace of namespaces().filter((one) => busy.includes(one)))
    for (const id of await listDurableObjectIds(namespace))
      await evictDurableObject(namespace.get(id)).catch(() => {});
}

function namespaces(): DurableObjectNamespace[] {
  return Object.values(env).filter(
    (binding): binding is DurableObjectNamespace =>
      typeof binding === "object" && binding?.constructor.name.endsWith("DurableObjectNamespace"),
  );
}
