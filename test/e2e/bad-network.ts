/** A TCP proxy that disturbs its connections as real networks do. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export class BadNetwork implements AsyncDisposable {
  readonly #server = createServer((socket) => this.#accept(socket));
  #port: number;
  readonly #pairs = new Set<{ near: Socket; far: Socket; frozen: boolean }>();
  /** Bytes that may still pass in either direction before `#onSpent`. */
  #budget = Number.POSITIVE_INFINITY;
  #onSpent: () => void = () => {};
  #delayMs = 0;
  #bytesPerMs = Number.POSITIVE_INFINITY;
  #refusing = false;
  /** No byte passes while this promise is pending. */
  #held: PromiseWithResolvers<void> | undefined;
  /** The number of connections so far. */
  accepted = 0;

  private constructor(port: number) {
    this.#port = port;
  }

  static async to(url: string): Promise<BadNetwork> {
    const network = new BadNetwork(Number(new URL(url).port));
    network.#server.listen(0, "127.0.0.1");
    await once(network.#server, "listening");
    return network;
  }

  /** Sends new connections to another address. */
  leadTo(url: string): void {
    this.#port = Number(new URL(url).port);
  }

  /** The given address through this network. */
  url(url: string): string {
    const there = new URL(url);
    there.port = String((this.#server.address() as AddressInfo).port);
    return there.href.replace(/\/$/, "");
  }

  /** Calls `then` when this many more bytes have passed, before the next one passes. */
  after(bytes: number, act: () => void): void {
    this.#budget = bytes;
    this.#onSpent = act;
  }

  /** Resets all connections, as a router does that was restarted. */
  cut(): void {
    for (const { near, far } of this.#pairs) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  }

  /** Silently drops all further bytes of the connections that are open now. */
  freeze(): void {
    for (const pair of this.#pairs) pair.frozen = true;
  }

  /**
   * Silently holds all bytes in both directions, those of new connections too. They arrive after `release`, as with
   * TCP, unless one end has given up, of which the other end never learns.
   */
  hold(): void {
    this.#held ??= Promise.withResolvers();
  }

  release(): void {
    this.#held?.resolve();
    this.#held = undefined;
  }

  /** Refuses or accepts new connections. */
  refuse(refusing: boolean): void {
    this.#refusing = refusing;
  }

  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /** Limits the rate in each direction. */
  throttle(bytesPerSecond: number): void {
    this.#bytesPerMs = bytesPerSecond / 1000;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.release();
    this.cut();
    this.#server.close();
  }

  async #accept(near: Socket): Promise<void> {
    this.accepted += 1;
    if (this.#refusing) return void near.resetAndDestroy();
    near.on("error", () => {});
    await this.#held?.promise;
    if (near.destroyed) return;
    const far = connect(this.#port, "127.0.0.1");
    const pair = { near, far, frozen: false };
    this.#pairs.add(pair);
    const pipe = async (from: Socket, to: Socket) => {
      try {
        for await (const chunk of from as AsyncIterable<Buffer>) {
          const delay = this.#delayMs + chunk.length / this.#bytesPerMs;
          if (delay > 0) await sleep(delay);
          await this.#held?.promise;
          if (pair.frozen) continue;
          // A budget may end in the middle of a message.
          const part = chunk.subarray(0, Math.min(chunk.length, this.#budget));
          if (part.length > 0 && !to.write(part)) await once(to, "drain");
          this.#budget -= part.length;
          if (this.#budget === 0) this.#spent();
          if (!pair.frozen && !to.destroyed) to.write(chunk.subarray(part.length));
        }
      } catch {
        // The connection was cut on purpose.
      }
      if (!pair.frozen && !this.#held) to.destroy();
      if (near.destroyed && far.destroyed) this.#pairs.delete(pair);
    };
    far.on("error", () => {});
    void pipe(near, far);
    void pipe(far, near);
  }

  #spent(): void {
    this.#budget = Number.POSITIVE_INFINITY;
    this.#onSpent();
  }
}
