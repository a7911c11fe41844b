/** Stands in for the models of published agents: their vendors' APIs on this machine. The prompt says what to answer. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { anthropic } from "./anthropic.ts";
import type { Body, Dialect } from "./dialect.ts";
import { gemini } from "./gemini.ts";
import { openai } from "./openai.ts";
import { planAnswer } from "./plan.ts";

export class ModelStandIn implements AsyncDisposable {
  readonly #server: Server;

  static async start(): Promise<ModelStandIn> {
    const server = createServer((request, response) => {
      // An agent that cancels hangs up in the middle of an answer.
      answer(request, response).catch(() => response.destroy());
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new ModelStandIn(server);
  }

  private constructor(server: Server) {
    this.#server = server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}

type Route = { path: RegExp; dialect: Dialect; streams: (body: Body, url: string) => boolean };

const ROUTES: Route[] = [
  { path: /\/messages$/, dialect: anthropic, streams: ({ stream }) => stream === true },
  { path: /\/chat\/completions$/, dialect: openai, streams: ({ stream }) => stream === true },
  { path: /:(stream)?[gG]enerateContent$/, dialect: gemini, streams: (_, url) => url.includes(":stream") },
];

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = JSON.parse((await read(request)) || "{}") as Body;
  const path = (request.url ?? "").split("?", 1).join();
  const route = ROUTES.find((candidate) => candidate.path.test(path));
  if (!route) return json(response, SIDE_REQUESTS.find(([end]) => path.endsWith(end))?.[1]);
  const { items, tools } = route.dialect.read(body);
  const plan = planAnswer(items, tools);
  if (!route.streams(body, path)) return json(response, route.dialect.whole(plan, body));
  response.writeHead(200, { "content-type": "text/event-stream" });
  const { head, tail } = route.dialect.stream(plan, body);
  for (const text of head) response.write(text);
  if (plan.holds) {
    await once(response, "close");
    return;
  }
  response.end(tail.join(""));
}

/** Questions about tokens. */
const SIDE_REQUESTS: [end: string, answer: object][] = [
  ["/count_tokens", { input_tokens: 100 }],
  [":countTokens", { totalTokens: 100 }],
];

function json(response: ServerResponse, value: object | undefined): void {
  response.writeHead(value ? 200 : 404, { "content-type": "application/json" });
  response.end(JSON.stringify(value ?? { error: { type: "not_found_error", message: "not found" } }));
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
