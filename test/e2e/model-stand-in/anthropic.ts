/** Anthropic's messages. */
import { type Body, type Dialect, event, textOf, toolOf } from "./dialect.ts";
import type { Item, Plan } from "./plan.ts";

type Part = { type: string; text?: string; content?: unknown };
type AnthropicMessage = { role: "user" | "assistant"; content: string | Part[] };

const USAGE = {
  input_tokens: 100,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  output_tokens: 20,
};

export const anthropic: Dialect = {
  read: (body) => ({
    items: ((body.messages ?? []) as AnthropicMessage[]).flatMap(itemsOf),
    tools: ((body.tools ?? []) as { name: string; input_schema?: unknown }[]).map((tool) =>
      toolOf(tool.name, tool.input_schema),
    ),
  }),
  stream(plan, body) {
    const typed = (type: string, data: object) => event({ type, ...data }, type);
    const blocks = blocksOf(plan);
    const texts = blocks.map(({ start, deltas }, index) => [
      typed("content_block_start", { index, content_block: start }),
      ...deltas.map((delta) => typed("content_block_delta", { index, delta })),
      typed("content_block_stop", { index }),
    ]);
    const message = messageOf(plan, body, []);
    const begin = typed("message_start", { message: { ...message, stop_reason: null } });
    // A held answer stops within its text, before the end of that block.
    const head = texts.flat().slice(0, plan.holds ? -1 : undefined);
    return {
      head: [begin, ...head],
      tail: [
        typed("message_delta", {
          delta: { stop_reason: message.stop_reason, stop_sequence: null },
          usage: USAGE,
        }),
        typed("message_stop", {}),
      ],
    };
  },
  whole: (plan, body) =>
    messageOf(
      plan,
      body,
      blocksOf(plan).map(({ whole }) => whole),
    ),
};

function itemsOf({ role, content }: AnthropicMessage): Item[] {
  const by = role === "user" ? "user" : "model";
  if (typeof content === "string") return [{ by, text: content }];
  return content.flatMap((part): Item[] => {
    if (part.type === "tool_result") return [{ by: "tool", text: textOf(part.content) }];
    return part.type === "text" ? [{ by, text: part.text ?? "" }] : [];
  });
}

type Block = { start: object; deltas: object[]; whole: object };

function blocksOf({ thought, texts, call }: Plan): Block[] {
  const blocks: Block[] = [];
  if (thought.length > 0) {
    blocks.push({
      start: { type: "thinking", thinking: "", signature: "" },
      deltas: [
        ...thought.map((thinking) => ({ type: "thinking_delta", thinking })),
        { type: "signature_delta", signature: "c3RhbmQtaW4=" },
      ],
      whole: { type: "thinking", thinking: thought.join(""), signature: "c3RhbmQtaW4=" },
    });
  }
  blocks.push({
    start: { type: "text", text: "" },
    deltas: texts.map((text) => ({ type: "text_delta", text })),
    whole: { type: "text", text: texts.join("") },
  });
  if (call) {
    const use = { type: "tool_use", id: `toolu_${crypto.randomUUID()}`, name: call.name };
    blocks.push({
      start: { ...use, input: {} },
      deltas: [{ type: "input_json_delta", partial_json: JSON.stringify(call.arguments) }],
      whole: { ...use, input: call.arguments },
    });
  }
  return blocks;
}

function messageOf({ call }: Plan, { model }: Body, content: object[]) {
  const id = `msg_${crypto.randomUUID()}`;
  const stop_reason = call ? "tool_use" : "end_turn";
  return {
    id,
    type: "message",
    role: "assistant",
    model,
    content,
    stop_reason,
    stop_sequence: null,
    usage: USAGE,
  };
}
