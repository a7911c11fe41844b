/** Whether only the other end can read and write what goes to this address. */
export function isPrivateLine(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || hostname === "127.0.0.1" || hostname === "localhost";
}
