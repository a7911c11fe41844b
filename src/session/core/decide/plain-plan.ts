import { notification } from "../../../protocol/errors.ts";
import { type NotificationFrame, paramsOf } from "../../../protocol/frame.ts";
import { isRecord, type JsonObject, recordOf, textOf } from "../../../protocol/json-value.ts";
import { boundList } from "../state/bounded-values.ts";
import type { NamedPlan } from "../state/plans.ts";
import { STATE_BUDGET } from "../state/state-budget.ts";
import type { Batch } from "./batch.ts";

/** Whether a frame changes one of several plans. A client without plan operations knows one plan, which it gets whole. */
export function changesNamedPlan(frame: NotificationFrame): boolean {
  const { sessionUpdate } = recordOf(paramsOf(frame).update);
  return sessionUpdate === "plan_update" || sessionUpdate === "plan_removed";
}

/** Tells clients without plan operations all plans as one, after one of them has changed. */
export function tellWholePlan(batch: Batch): void {
  const { sessionId, report } = batch.state;
  const all = [
    ...(report.plan?.items ?? []),
    ...report.plans.flatMap((plan) => entriesOf(batch, plan).filter(isRecord)),
  ];
  const entries = boundList(all, STATE_BUDGET.planChars, ["content", "priority", "status"])?.items ?? [];
  const update = { sessionUpdate: "plan", entries };
  batch.frame("gateway", "in", notification("session/update", { sessionId, update }), {
    lacking: "plan-operations",
  });
}

/** A plan that is a document becomes a single entry. */
function entriesOf(batch: Batch, { plan }: NamedPlan): unknown[] {
  const { entries, content, uri } = plan.value === undefined ? planAt(batch, plan.seq) : recordOf(plan.value);
  if (Array.isArray(entries)) return entries;
  const text = textOf(content) ?? textOf(uri);
  return text === undefined ? [] : [{ content: text, priority: "medium", status: "in_progress" }];
}

/** A plan that is too long for the state is in the log. */
function planAt(batch: Batch, seq: number): JsonObject {
  const frame = batch.findFrame(seq)?.frame;
  return recordOf(recordOf(frame && paramsOf(frame).update).plan);
}
