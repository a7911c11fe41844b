/** Computed images and sounds, so that clients have real media to show. */
import { crc32, deflateSync } from "node:zlib";

/** A square colour gradient, stored uncompressed. Its base64 text has about the requested length. */
export function png(base64Length: number): string {
  const side = Math.max(1, Math.floor(Math.sqrt(base64Length / 4)));
  const row = 1 + side * 3;
  const pixels = Buffer.alloc(row * side);
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      pixels.set([(x * 255) / side, (y * 255) / side, 128], y * row + 1 + x * 3);
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header.set([8, 2], 8); // 8 bits per channel, RGB
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    pngChunk("IHDR", header),
    pngChunk("IDAT", deflateSync(pixels, { level: 0 })),
    pngChunk("IEND", Buffer.alloc(0)),
  ]).toString("base64");
}

function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const chunk = Buffer.alloc(body.length + 8);
  chunk.writeUInt32BE(data.length, 0);
  chunk.set(body, 4);
  chunk.writeUInt32BE(crc32(body), body.length + 4);
  return chunk;
}

/** A quarter of a second of the tone A4: 8 kHz, mono, 8 bits. */
export function wav(): string {
  const rate = 8000;
  const samples = Buffer.from(
    Array.from(
      { length: rate / 4 },
      (_, i) => 128 + Math.round(100 * Math.sin((2 * Math.PI * 440 * i) / rate)),
    ),
  );
  const header = Buffer.alloc(44);
  header.write("RIFF", 0);
  header.writeUInt32LE(36 + samples.length, 4);
  header.write("WAVEfmt ", 8);
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(rate, 24);
  header.writeUInt32LE(rate, 28);
  header.writeUInt16LE(1, 32);
  header.writeUInt16LE(8, 34);
  header.write("data", 36);
  header.writeUInt32LE(samples.length, 40);
  return Buffer.concat([header, samples]).toString("base64");
}
