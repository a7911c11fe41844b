import { lookup } from "node:dns/promises";
import { connect as connectTcp, isIP } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { describeError, EXIT } from "../cli-error.ts";
import { type Check, failedCheck } from "./doctor-check.ts";

/** The checks of `doctor` below HTTP: name, connection, TLS. */

export const NETWORK_TIMEOUT_MS = 5_000;

export async function checkName(url: string): Promise<Check> {
  const name = hostIn(url);
  try {
    const addresses = await lookup(name, { all: true });
    return { status: "ok", detail: `${name} is ${addresses.map(({ address }) => address).join(", ")}` };
  } catch (error) {
    return failedCheck(
      `${name} has no address (${(error as NodeJS.ErrnoException).code})`,
      EXIT.unreachable,
      "Is the name spelled right, and is this machine online?",
    );
  }
}

export async function checkConnection(url: string): Promise<Check> {
  const { protocol, port } = new URL(url);
  const isSecure = protocol === "https:";
  const address = { host: hostIn(url), port: Number(port || (isSecure ? 443 : 80)) };
  try {
    return { status: "ok", detail: await dial(address, isSecure) };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    return failedCheck(describeError(error), EXIT.unreachable, connectHint(code, address.port));
  }
}

/** The host of a URL, without the brackets of an IPv6 address. */
function hostIn(url: string): string {
  return new URL(url).hostname.replace(/^\[|\]$/g, "");
}

/** Connects and describes how. A peer that accepts the connection but then stays silent does not speak TLS. */
function dial(address: { host: string; port: number }, isSecure: boolean): Promise<string> {
  const { host, port } = address;
  return new Promise((resolve, reject) => {
    const name = isIP(host) === 0 ? { servername: host } : {};
    const socket = isSecure ? connectTls({ ...address, ...name }) : connectTcp(address);
    let timeoutCode = "ETIMEDOUT";
    socket.setTimeout(NETWORK_TIMEOUT_MS);
    socket.on("connect", () => {
      timeoutCode = "EPROTO";
      if (!isSecure) finish(`port ${port}`);
    });
    socket.on("secureConnect", () => finish(`port ${port}, ${(socket as TLSSocket).getProtocol()}`));
    socket.on("timeout", () =>
      socket.destroy(Object.assign(new Error("no answer in time"), { code: timeoutCode })),
    );
    socket.on("error", reject);
    function finish(detail: string) {
      socket.destroy();
      resolve(detail);
    }
  });
}

function connectHint(code: string, port: number): string {
  if (code === "ECONNREFUSED")
    return `Nothing listens on port ${port}. Is the gateway running, and is the port right?`;
  if (code === "ETIMEDOUT" || code === "EHOSTUNREACH" || code === "ENETUNREACH")
    return "The machine does not answer. Check the firewall, the VPN and the network.";
  if (code === "CERT_HAS_EXPIRED")
    return "The certificate has expired, or the clock of this machine is wrong.";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID")
    return "The certificate is for another name. Is the address right?";
  if (/SELF_SIGNED|UNABLE_TO|ISSUER/.test(code))
    return "This machine does not know the issuer of the certificate. Add the issuer with NODE_EXTRA_CA_CERTS.";
  if (/SSL|TLS|EPROTO/.test(code))
    return "This port does not speak TLS. Should the address begin with http instead of https?";
  return "Is the address right, and is the gateway running?";
}
