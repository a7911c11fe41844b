/** Stands in for a model: an OpenAI-compatible API on this machine that follows a script. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** One answer of the model. */
export type Reply = { say: string } | { tool: string; arguments: Record<string, unknown> };

type Message = { role: string; content?: unknown };
export type ModelRequest = { key: string | undefined; messages: Message[]; tools: string[] };

export class ModelServer implements AsyncDisposable {
  /** The requests of the conversation in order, without an agent's side requests. */
  readonly requests: ModelRequest[] = [];
  readonly #server: Server;
  readonly #script: Reply[];
  readonly #mark: string;

  /** Answers requests that contain `mark` with the next reply of the script, and all others with a word. */
  static async start(mark: string, script: Reply[]): Promise<ModelServer> {
    const server = createServer();
    const model = new ModelServer(server, mark, script);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return model;
  }

  private constructor(server: Server, mark: string, script: Reply[]) {
    this.#server = server;
    this.#mark = mark;
    this.#script = [...script];
    server.on("request", async (request, response) => {
      const body = JSON.parse((await read(request)) || "{}") as {
        stream?: boolean;
        messages?: Message[];
        tools?: { function: { name: string } }[];
      };
      const reply = this.#reply(request, body.messages ?? [], body.tools ?? []);
      const finish = "say" in reply ? "stop" : "tool_calls";
      if (!body.stream) {
        response.writeHead(200, { "Content-Type": "application/json" });
        response.end(JSON.stringify(completion({ message: message(reply), finish_reason: finish })));
        return;
      }
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      const send = (choice: object) => response.write(`data: ${JSON.stringify(completion(choice))}\n\n`);
      send({ delta: message(reply), finish_reason: null });
      send({ delta: {}, finish_reason: finish });
      response.end("data: [DONE]\n\n");
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  #reply(request: IncomingMessage, messages: Message[], tools: { function: { name: string } }[]): Reply {
    const inScript = tools.length > 0 && JSON.stringify(messages).includes(this.#mark);
    if (!inScript) return { say: "ok" };
    const key = request.headers.authorization?.replace("Bearer ", "");
    this.requests.push({ key, messages, tools: tools.map((tool) => tool.function.name) });
    return this.#script.shift() ?? { say: "ok" };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}

function message(reply: Reply): object {
  if ("say" in reply) return { role: "assistant", content: reply.say };
  const call = { name: reply.tool, arguments: JSON.stringify(reply.arguments) };
  return {
    role: "assistant",
    content: null,
    tool_calls: [{ index: 0, id: "call_1", type: "function", function: call }],
  };
}

function completion(choice: object): object {
  return {
    id: "completion",
    object: "chat.completion.chunk",
    created: 1,
    model: "stand-in",
    choices: [{ index: 0, ...choice }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  };
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
