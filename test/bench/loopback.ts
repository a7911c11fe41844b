/** Preloaded into stdio-to-ws, which has no option to listen on this machine only. */
import { Server } from "node:net";

const listen = Server.prototype.listen as (...args: unknown[]) => Server;

Server.prototype.listen = function (this: Server, port: unknown, _host: unknown, ...rest: unknown[]): Server {
  return Reflect.apply(listen, this, [port, "127.0.0.1", ...rest]);
};
