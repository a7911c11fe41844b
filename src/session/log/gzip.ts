/** The text of a file that is packed with gzip. */
export async function gunzip(packed: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(packed.pipeThrough(new DecompressionStream("gzip"))).text();
}
