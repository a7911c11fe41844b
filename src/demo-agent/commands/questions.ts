/** Commands that ask the user of the client. */
import {
  type CreateElicitationRequest,
  type ElicitationSchema,
  methods,
  type PermissionOption,
} from "@agentclientprotocol/sdk";
import { type Command, type DemoTurn, failureReason } from "../demo-turn.ts";

const PERMISSIONS: PermissionOption[] = [
  { optionId: "allow", name: "Allow", kind: "allow_once" },
  { optionId: "allow-always", name: "Always allow", kind: "allow_always" },
  { optionId: "reject", name: "Reject", kind: "reject_once" },
  { optionId: "reject-always", name: "Always reject", kind: "reject_always" },
];

const FORM: ElicitationSchema = {
  type: "object",
  properties: {
    name: { type: "string", title: "Your name" },
    color: { type: "string", title: "Favourite colour", enum: ["red", "green", "blue"] },
    size: { type: "integer", title: "Shoe size", minimum: 20, maximum: 60 },
    pets: {
      type: "array",
      title: "Pets",
      items: {
        anyOf: [
          { const: "cat", title: "Cats" },
          { const: "dog", title: "Dogs" },
        ],
      },
    },
    subscribe: { type: "boolean", title: "Subscribe", default: false },
  },
  required: ["name"],
};

export const questionCommands: Command[] = [
  {
    name: "permission",
    hint: "[TITLE]",
    description: "A tool call that needs permission",
    run: permission,
  },
  {
    name: "elicit",
    hint: "[session|request|url]",
    description: "Ask the user to fill in a form or visit a page",
    lacks: ({ elicitation }, scope) => {
      const mode = elicitationMode(scope);
      return !elicitation?.[mode] && `elicitation.${mode}`;
    },
    run: elicit,
  },
  {
    name: "ask",
    hint: "[TEXT]",
    description: "Send the extension request _demo/ask and report the answer",
    run: ask,
  },
];

async function permission(turn: DemoTurn, args: string): Promise<void> {
  const title = args || "Delete everything";
  const call = turn.tool({ title, kind: "delete", rawInput: { path: turn.session.record.cwd } });
  try {
    const { outcome } = await turn.client.request(
      methods.client.session.requestPermission,
      {
        sessionId: turn.session.id,
        toolCall: { toolCallId: call.toolCallId, title },
        options: PERMISSIONS,
      },
      turn.cancellable,
    );
    if (outcome.outcome === "cancelled") {
      call.patch({ status: "failed" });
      turn.say("Permission cancelled.\n");
      turn.end("cancelled");
      return;
    }
    const option = PERMISSIONS.find(({ optionId }) => optionId === outcome.optionId);
    call.patch({ status: option?.kind.startsWith("allow") ? "completed" : "failed", rawOutput: outcome });
    turn.say(`Permission selected: ${outcome.optionId}\n`);
  } catch (error) {
    const reason = failureReason(turn, error);
    call.patch({ status: "failed" });
    turn.say(`Permission failed: ${reason}\n`);
  }
}

async function elicit(turn: DemoTurn, scope: string): Promise<void> {
  const mode = elicitationMode(scope);
  const owner = scope === "request" ? { requestId: turn.requestId } : { sessionId: turn.session.id };
  const elicitationId = `elicitation_${turn.session.record.prompts}`;
  const request: CreateElicitationRequest =
    mode === "url"
      ? { mode, ...owner, message: "Please visit this page.", elicitationId, url: "https://example.com/demo" }
      : { mode, ...owner, message: "Please tell me about yourself.", requestedSchema: FORM };
  try {
    const answer = await turn.client.request(methods.client.elicitation.create, request, turn.cancellable);
    if (mode === "url") await turn.client.notify(methods.client.elicitation.complete, { elicitationId });
    turn.say(`Elicitation answered: ${JSON.stringify(answer)}\n`);
  } catch (error) {
    turn.say(`Elicitation failed: ${failureReason(turn, error)}\n`);
  }
}

function elicitationMode(scope: string): "url" | "form" {
  return scope === "url" ? "url" : "form";
}

async function ask(turn: DemoTurn, question: string): Promise<void> {
  try {
    const params = { sessionId: turn.session.id, question: question || "What is the answer?" };
    const answer = await turn.client.request("_demo/ask", params, turn.cancellable);
    turn.say(`_demo/ask answered: ${JSON.stringify(answer)}\n`);
  } catch (error) {
    turn.say(`_demo/ask failed: ${failureReason(turn, error)}\n`);
  }
}
