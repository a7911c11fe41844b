import { LOOPBACK_SECRET } from "../../protocol/loopback-secret.ts";

type Answer = { code?: number; running?: boolean };

/**
 * Stands in for `ctx.container` of Cloudflare, with a process in place of the container. It has the members that
 * `@cloudflare/containers` uses. The service bound as LOCAL_CONTAINERS runs the process.
 */
export class ProcessContainer {
  readonly #service: Fetcher;
  readonly #secret: string;
  readonly #id: string;
  #started: Promise<void> = Promise.resolve();
  #ended: Promise<void> = Promise.resolve();
  running = false;

  /** The service refuses callers that do not know the secret. */
  constructor(service: Fetcher, secret: string, id: string) {
    this.#service = service;
    this.#secret = secret;
    this.#id = id;
  }

  start({ env = {} }: ContainerStartupOptions): void {
    this.#started = this.#ask("/start", "", JSON.stringify(env)).then(() => {});
    this.#watch();
  }

  /** Continues with the process that an earlier object started. False: there is none. */
  async adopt(): Promise<boolean> {
    const { running = false } = await this.#ask("/state");
    if (running) this.#watch();
    return running;
  }

  #watch(): void {
    this.running = true;
    this.#ended = this.#started
      .then(() => this.#exit())
      .finally(() => {
        this.running = false;
      });
    // The promise that `monitor` returns reports the error; this one must not count as unhandled.
    this.#ended.catch(() => {});
  }

  monitor(): Promise<void> {
    return this.#ended;
  }

  signal(signal: number): void {
    void this.#ask("/signal", `&signal=${signal}`);
  }

  async destroy(): Promise<void> {
    await this.#ask("/signal", "&signal=9");
    await this.#ended.catch(() => {});
  }

  /** Nothing listens in the container. The refusal of the connection shows that the container is up. */
  getTcpPort(): { fetch(): Promise<never> } {
    return {
      fetch: async () => {
        await this.#started;
        throw new Error("the container is not listening");
      },
    };
  }

  async #exit(): Promise<void> {
    for (;;) {
      const { code } = await this.#ask("/wait");
      if (code === 0) return;
      if (code !== undefined) throw new Error(`container exited with unexpected exit code: ${code}`);
    }
  }

  async #ask(path: string, more = "", body = ""): Promise<Answer> {
    const url = `http://containers${path}?id=${this.#id}${more}`;
    const headers = { [LOOPBACK_SECRET]: this.#secret };
    const response = await this.#service.fetch(url, { method: "POST", headers, body });
    if (!response.ok) throw new Error(`the gateway's process refuses: ${response.status}`);
    const answer = (await response.json()) as Answer & { error?: string };
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }
}
