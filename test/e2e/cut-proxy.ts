import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket, connect as tcpConnect } from "node:net";

/**
 * A network that can be cut: while it is, nothing passes in either direction and nobody is told. What was under
 * way arrives afterwards, as TCP sees to it, unless one end has given up; the other end never hears of that.
 */
export class CutProxy {
  readonly #server: Server;
  readonly #port: number;
  readonly #pairs = new Set<{ near: Socket; far: Socket | undefined }>();
  #isCut = false;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.#port = port;
    server.on("connection", (near) => this.#accept(near));
  }

  static async to(url: string): Promise<CutProxy> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new CutProxy(server, Number(new URL(url).port));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  cut(): void {
    this.#isCut = true;
    for (const { near, far } of this.#pairs) {
      near.pause();
      far?.pause();
    }
  }

  mend(): void {
    this.#isCut = false;
    for (const pair of this.#pairs) {
      if (pair.near.destroyed) continue;
      if (pair.far) {
        pair.near.resume();
        pair.far.resume();
      } else this.#join(pair);
    }
  }

  close(): void {
    this.#server.close();
    for (const { near, far } of this.#pairs) {
      near.destroy();
      far?.destroy();
    }
  }

  #accept(near: Socket): void {
    const pair = { near, far: undefined };
    this.#pairs.add(pair);
    near.on("error", () => {});
    near.pause();
    if (!this.#isCut) this.#join(pair);
  }

  #join(pair: { near: Socket; far: Socket | undefined }): void {
    const far = tcpConnect(this.#port, "127.0.0.1");
    pair.far = far;
    for (const [from, to] of [
      [pair.near, far],
      [far, pair.near],
    ] as const) {
      from.on("error", () => {});
      from.on("data", (chunk) => {
        // A slow reader is not the point here: whatever passes is kept.
        to.write(chunk);
      });
      from.on("close", () => {
        if (!this.#isCut) to.destroy();
      });
    }
    pair.near.resume();
  }
}
