import { expect, test } from "vitest";
import { project } from "../../../../../src/session/core/read/projection.ts";
import { acpxMembers } from "../../../../../src/session/transfer/worker/acpx-members.ts";
import { openSession } from "../../core/session-script.ts";

test("session.json has acpx's projection and its list of turns", () => {
  const session = openSession();
  session.prompt("Fix it");
  session.update({ sessionUpdate: "current_mode_update", currentModeId: "code" });
  session.update({ sessionUpdate: "tool_call", toolCallId: "t", title: "Read", status: "completed" });
  session.update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: "Fixed" } });
  session.prompt("waits");
  const { acpProjection, turnHistory } = acpxMembers(project(session.state));
  expect(acpProjection).toMatchObject({
    schema: "acpx.session.acp.v1",
    lastSeq: session.state.lastSeq,
    currentModeId: "code",
    toolCalls: [{ toolCallId: "t", status: "completed" }],
    availableCommands: [],
  });
  expect(turnHistory).toMatchObject([
    { role: "user", textPreview: "Fix it", timestamp: expect.any(String) },
    { role: "assistant", textPreview: expect.stringContaining("Fixed"), timestamp: expect.any(String) },
  ]);
});
