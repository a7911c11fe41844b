/**
 * Stands in for `ctx.container` of Cloudflare, with a process in place of the container. It has the members that
 * `@cloudflare/containers` uses. The service bound as LOCAL_CONTAINERS runs the process.
 */
export class ProcessContainer {
  readonly #service: Fetcher;
  readonly #id: string;
  #started: Promise<void> = Promise.resolve();
  #ended: Promise<void> = Promise.resolve();
  running = false;

  constructor(service: Fetcher, id: string) {
    this.#service = service;
    this.#id = id;
  }

  start({ env = {} }: ContainerStartupOptions): void {
    this.running = true;
    this.#started = this.#ask("/start", "", JSON.stringify(env)).then(() => {});
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

  async #ask(path: string, more = "", body = ""): Promise<{ code?: number }> {
    const url = `http://containers${path}?id=${this.#id}${more}`;
    const response = await this.#service.fetch(url, { method: "POST", body });
    const answer = (await response.json()) as { error?: string; code?: number };
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }
}
