import type { HostView, WorkspaceView } from "../../protocol/rest.ts";
import { EXIT } from "../cli-error.ts";
import type { Target } from "../gateway/target.ts";
import { brief } from "../text-format.ts";
import { type Check, failedCheck } from "./doctor-check.ts";

/** The checks of `doctor` on a workspace as the gateway reports it. */

export function checkHost(
  {
    hosts,
    containerState,
  }: { hosts: readonly Pick<HostView, "name" | "root" | "state">[] } & Pick<WorkspaceView, "containerState">,
  { url }: Pick<Target, "url">,
  workspace: string,
): Check {
  const present = hosts.filter(({ state }) => state !== "gone");
  if (present.length > 0) {
    const detail = present.map(({ name, root }) => `${brief(name)} serves ${root}`).join(", ");
    return { status: "ok", detail };
  }
  if (containerState?.failures)
    return failedCheck(
      `the container does not start: ${brief(containerState.reason ?? "", 300)}`,
      EXIT.error,
      "The log of the deployment has the container's own output.",
    );
  if (containerState) return { status: "ok", detail: "a container starts when a session needs it" };
  return failedCheck(
    `no host is connected for ${workspace}`,
    EXIT.error,
    `Start one where the files are: acp-edge host --gateway ${url} --workspace ${workspace} --root DIR`,
  );
}

export function checkAgent(
  { agents, containerState }: Pick<WorkspaceView, "agents" | "containerState">,
  agentId: string | undefined,
): Check {
  if (agents.length === 0 && containerState)
    return { status: "ok", detail: "known after the first start of the container" };
  const agent = agents.find(({ id, default: isDefault }) =>
    agentId === undefined ? isDefault : id === agentId,
  );
  if (!agent)
    return failedCheck(
      agentId === undefined ? "there is no default agent" : `there is no agent ${agentId}`,
      EXIT.notFound,
      `The hosts offer: ${agents.map(({ id }) => id).join(", ") || "none"}.`,
    );
  if (agent.error)
    return failedCheck(
      `${agent.id} does not start: ${brief(agent.error, 300)}`,
      EXIT.error,
      "Run its command by hand on the host. Is it installed, and does it have its key?",
    );
  const detail = `${agent.id}${agent.default ? ", the default" : ""}${agent.ready ? "" : ", not started yet"}`;
  return { status: "ok", detail };
}
