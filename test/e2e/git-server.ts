/** A git server that asks for a user and a password: `git http-backend` behind a server of Node. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttps } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class GitServer implements AsyncDisposable {
  /** The `Authorization` headers and URLs that arrived, in order. */
  readonly authorizations: (string | undefined)[] = [];
  readonly paths: string[] = [];
  /** Called for each request that has the right password, before it is answered. */
  onRequest: () => void = () => {};
  /** Sends each request on to another address. */
  redirect: string | undefined;
  readonly #directory = mkdtempSync(join(tmpdir(), "acp-edge-git-"));
  readonly #credentials: string;
  readonly #server: ReturnType<typeof createHttp>;
  readonly #scheme: string;

  private constructor(credentials: string, { tls }: { tls: boolean }) {
    this.#credentials = credentials;
    this.#scheme = tls ? "https" : "http";
    const answer = (request: IncomingMessage, response: ServerResponse) => this.#answer(request, response);
    this.#server = tls ? createHttps(this.#certificate(), answer) : createHttp(answer);
  }

  static async start(credentials: string, options = { tls: false }): Promise<GitServer> {
    const server = new GitServer(credentials, options);
    server.#makeRepository();
    server.#server.listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `${this.#scheme}://127.0.0.1:${port}/private.git`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #makeRepository(): void {
    const run = (...args: string[]) => execFileSync("git", args, { cwd: this.#directory });
    run("init", "--quiet", "--initial-branch", "trunk", "work");
    const author = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
    run("-C", "work", ...author, "commit", "--quiet", "--allow-empty", "-m", "begin");
    run("clone", "--quiet", "--bare", "work", "private.git");
  }

  #certificate(): { key: Buffer; cert: Buffer } {
    const [key, cert] = [join(this.#directory, "key.pem"), join(this.#directory, "cert.pem")];
    const subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"];
    execFileSync(
      "openssl",
      [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-keyout",
        key,
        "-out",
        cert,
        ...subject,
      ],
      { stdio: "ignore" },
    );
    return { key: readFileSync(key), cert: readFileSync(cert) };
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.authorizations.push(request.headers.authorization);
    this.paths.push(request.url ?? "");
    if (this.redirect !== undefined) {
      const rest = (request.url ?? "").replace("/private.git", "");
      response.writeHead(302, { location: `${this.redirect}${rest}` }).end();
      return;
    }
    const expected = `Basic ${Buffer.from(this.#credentials).toString("base64")}`;
    if (request.headers.authorization !== expected) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="private"' }).end();
      return;
    }
    this.onRequest();
    this.#serve(request, response);
  }

  /** Runs the backend as a CGI program. */
  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, search } = new URL(request.url ?? "", this.url);
    const backend = spawn("git", ["http-backend"], {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: this.#directory,
        GIT_HTTP_EXPORT_ALL: "1",
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        ...(request.headers["content-encoding"] && {
          HTTP_CONTENT_ENCODING: request.headers["content-encoding"],
        }),
        ...(request.headers["git-protocol"] && { GIT_PROTOCOL: String(request.headers["git-protocol"]) }),
        REMOTE_USER: "x",
      },
    });
    request.pipe(backend.stdin);
    const chunks: Buffer[] = [];
    backend.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
    backend.on("close", () => {
      const output = Buffer.concat(chunks);
      const end = output.indexOf("\r\n\r\n");
      const headers = output.subarray(0, end).toString().split("\r\n");
      let status = 200;
      for (const header of headers) {
        const [name = "", ...value] = header.split(": ");
        if (name === "Status") status = Number.parseInt(value.join(": "), 10);
        else response.setHeader(name, value.join(": "));
      }
      response.writeHead(status).end(output.subarray(end + 4));
    });
  }
}
