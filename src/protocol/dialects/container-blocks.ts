import { MetaKey } from "../extensions.ts";
import { unifiedDiff } from "./diff.ts";
import { fileUri } from "./file-uri.ts";
import { type Fields, fields, InvalidParams, isFields, text, without } from "./message.ts";
import { link } from "./requests.ts";

/**
 * Content blocks of seed 000, `{type, content: string, metadata?}`, from and to canonical ones. What does not
 * fit travels in `metadata` one way and in `_meta` the other.
 */

const DIFF_TYPE = "text/x-diff";

// ---- from the client ------------------------------------------------------------------------------------

export function readBlock(block: unknown): Fields {
  if (!isFields(block)) throw new InvalidParams("A content block must be an object");
  const { type, content, metadata, ...rest } = block;
  if (content === undefined && isCanonical(block)) return block;
  if (typeof content !== "string") throw new InvalidParams("content of a content block must be a string");
  const known = fields(metadata);
  const kept: Fields = { ...fields(rest._meta) };
  if (metadata !== undefined) kept[MetaKey.blockMetadata] = metadata;
  if (type === "diff" || type === "thought") kept[MetaKey.blockType] = type;
  return {
    ...rest,
    ...canonicalBlock(type, content, known),
    ...(Object.keys(kept).length > 0 ? { _meta: kept } : {}),
  };
}

function canonicalBlock(type: unknown, content: string, metadata: Fields): Fields {
  switch (type) {
    case "text":
    case "thought":
      return { type: "text", text: content };
    case "image":
      return { type: "image", ...imageData(content, metadata) };
    case "diff":
      return resource(content, placeOf(metadata) ?? "urn:acp-edge:diff", DIFF_TYPE, metadata);
    case "file": {
      // Content and a place: the file itself. Content alone: where it is.
      const uri = placeOf(metadata);
      return uri === undefined || content === ""
        ? fileLink(uri ?? content, metadata)
        : resource(content, uri, undefined, metadata);
    }
    default:
      throw new InvalidParams(`Unknown type of content block: ${JSON.stringify(type)}`);
  }
}

function resource(content: string, uri: string, ownType: string | undefined, metadata: Fields): Fields {
  const mimeType = text(metadata.mimeType) ?? ownType;
  const body = metadata.encoding === "base64" ? { blob: content } : { text: content };
  return { type: "resource", resource: { uri, ...(mimeType === undefined ? {} : { mimeType }), ...body } };
}

function fileLink(place: string, metadata: Fields): Fields {
  const name = text(metadata.name);
  const mimeType = text(metadata.mimeType);
  return {
    ...link(place),
    ...(name === undefined ? {} : { name }),
    ...(mimeType === undefined ? {} : { mimeType }),
  };
}

function placeOf(metadata: Fields): string | undefined {
  const path = text(metadata.path);
  return text(metadata.uri) ?? (path === undefined ? undefined : fileUri(path));
}

function imageData(content: string, metadata: Fields): { data: string; mimeType: string } {
  const inline = /^data:([^;,]+);base64,/.exec(content);
  if (inline) return { mimeType: inline[1] as string, data: content.slice(inline[0].length) };
  const [, sniffed] = IMAGE_TYPES.find(([start]) => content.startsWith(start)) ?? [];
  const mimeType = text(metadata.mimeType) ?? sniffed;
  if (mimeType === undefined) throw new InvalidParams("An image needs metadata.mimeType or a data: URI");
  return { data: content, mimeType };
}

/** How images begin in base64. */
const IMAGE_TYPES = [
  ["iVBORw0KGgo", "image/png"],
  ["/9j/", "image/jpeg"],
  ["R0lGOD", "image/gif"],
  ["UklGR", "image/webp"],
] as const;

function isCanonical({ type, text: said, data, uri, resource: embedded }: Fields): boolean {
  switch (type) {
    case "text":
      return typeof said === "string";
    case "image":
    case "audio":
      return typeof data === "string";
    case "resource_link":
      return typeof uri === "string";
    case "resource":
      return isFields(embedded);
    default:
      return false;
  }
}

// ---- to the client --------------------------------------------------------------------------------------

/** A canonical content block; `more` belongs to its metadata as well. */
export function plainBlock(block: unknown, more: Fields = {}): Fields {
  const { type, content, metadata } = shown(fields(block));
  const all = { ...returned(metadata), ...more };
  return { type, content, ...(Object.keys(all).length > 0 ? { metadata: all } : {}) };
}

/** Content of a tool call: a content block, a diff or a terminal. */
export function toolBlock(item: unknown, more: Fields): Fields {
  const { type, content, ...rest } = fields(item);
  switch (type) {
    case "content":
      return plainBlock(content, { ...rest, ...more });
    case "diff":
      return {
        type: "diff",
        content: unifiedDiff(text(rest.path) ?? "", text(rest.oldText) ?? "", text(rest.newText) ?? ""),
        metadata: { ...rest, ...more },
      };
    default:
      return { type: "text", content: "", metadata: { ...fields(item), ...more } };
  }
}

function shown(block: Fields): { type: string; content: string; metadata: Fields } {
  const { type, ...rest } = block;
  switch (type) {
    case "text": {
      const sort = fields(rest._meta)[MetaKey.blockType] === "thought" ? "thought" : "text";
      return { type: sort, content: text(rest.text) ?? "", metadata: without(rest, "text") };
    }
    case "image":
      return { type: "image", content: text(rest.data) ?? "", metadata: without(rest, "data") };
    case "audio":
      return {
        type: "file",
        content: text(rest.data) ?? "",
        metadata: { type, encoding: "base64", ...without(rest, "data") },
      };
    case "resource_link":
      return { type: "file", content: text(rest.uri) ?? "", metadata: without(rest, "uri") };
    case "resource": {
      const { text: said, blob, ...about } = fields(rest.resource);
      const sort = about.mimeType === DIFF_TYPE ? "diff" : "file";
      const encoding = text(said) === undefined ? { encoding: "base64" } : {};
      return {
        type: sort,
        content: text(said) ?? text(blob) ?? "",
        metadata: { ...about, ...encoding, ...without(rest, "resource") },
      };
    }
    default:
      return { type: "text", content: "", metadata: block };
  }
}

/** What a client of this dialect had sent as metadata is metadata again. */
function returned(metadata: Fields): Fields {
  const meta = fields(metadata._meta);
  if (!(MetaKey.blockMetadata in meta) && !(MetaKey.blockType in meta)) return metadata;
  const rest = without(meta, MetaKey.blockMetadata, MetaKey.blockType);
  return {
    ...without(metadata, "_meta"),
    ...fields(meta[MetaKey.blockMetadata]),
    ...(Object.keys(rest).length > 0 ? { _meta: rest } : {}),
  };
}
