/** Whether a connection to this URL cannot be read or altered on its way: it is encrypted, or stays on this machine. */
export function isSecureUrl(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || hostname === "127.0.0.1" || hostname === "localhost";
}
