import { reachOf } from "./network-address.ts";

/** Whether a connection to this URL cannot be read or altered on its way: it is encrypted, or stays on this machine. */
export function isSecureUrl(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || protocol === "wss:" || reachOf(hostname) === "loopback";
}

/** The error shown when a token would go to an insecure URL. */
export function insecureUrlMessage(url: string): string {
  const { protocol, host } = new URL(url);
  return `${protocol}//${host} is not encrypted, so others could read the token and everything else on the way: use https, or --insecure (ACP_EDGE_INSECURE=1) if the network itself is protected`;
}
