import { createServer } from "node:net";

export const LOCAL_ADDRESS = "127.0.0.1";
const DEFAULT_PORT = 8790;

/** The runner chooses the port once, so that every workerd that it starts has the same address. */
export async function choosePort(wanted: number | undefined): Promise<number> {
  const port = await tryPort(wanted ?? DEFAULT_PORT);
  if (port !== undefined) return port;
  if (wanted !== undefined) throw new Error(portInUse(wanted));
  const free = await tryPort(0);
  if (free === undefined) throw new Error(`No free port on ${LOCAL_ADDRESS}`);
  return free;
}

export function portInUse(port: number): string {
  return `Port ${port} is in use. Choose another port with --port N, or --port 0 for a free one.`;
}

function tryPort(port: number): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const server = createServer();
  server.once("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EADDRINUSE") resolve(undefined);
    else reject(error);
  });
  server.listen({ host: LOCAL_ADDRESS, port, exclusive: true }, () => {
    const address = server.address();
    server.close(() => resolve(typeof address === "object" ? address?.port : undefined));
  });
  return promise;
}
