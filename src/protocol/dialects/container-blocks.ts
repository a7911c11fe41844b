import { MetaKey } from "../extensions.ts";
import { isRecord, type JsonObject, recordOf, textOf } from "../json-value.ts";
import { unifiedDiff } from "./diff.ts";
import { fileUri } from "./file-uri.ts";
import { InvalidParams, without } from "./message.ts";
import { link } from "./requests.ts";

/**
 * Content blocks of the container data model, `{type, content: string, metadata?}`, from and to canonical blocks.
 * Members without a counterpart travel in `metadata` to the client and in `_meta` to the agent.
 */

const DIFF_TYPE = "text/x-diff";

// ---- from the client ------------------------------------------------------------------------------------

export function readBlock(block: unknown): JsonObject {
  if (!isRecord(block)) throw new InvalidParams("A content block must be an object");
  const { type, content, metadata, ...rest } = block;
  if (content === undefined && isCanonical(block)) return block;
  if (typeof content !== "string") throw new InvalidParams("content of a content block must be a string");
  const known = recordOf(metadata);
  const kept: Record<string, unknown> = { ...recordOf(rest._meta) };
  if (metadata !== undefined) kept[MetaKey.blockMetadata] = metadata;
  if (type === "diff" || type === "thought") kept[MetaKey.blockType] = type;
  return {
    ...rest,
    ...canonicalBlock(type, content, known),
    ...(Object.keys(kept).length > 0 ? { _meta: kept } : {}),
  };
}

function canonicalBlock(type: unknown, content: string, metadata: JsonObject): JsonObject {
  switch (type) {
    case "text":
    case "thought":
      return { type: "text", text: content };
    case "image":
      return { type: "image", ...imageData(content, metadata) };
    case "diff":
      return resource(content, placeOf(metadata) ?? "urn:acp-edge:diff", DIFF_TYPE, metadata);
    case "file": {
      // With a place, the content is the file. Alone, the content is the place.
      const uri = placeOf(metadata);
      return uri === undefined || content === ""
        ? fileLink(uri ?? content, metadata)
        : resource(content, uri, undefined, metadata);
    }
    default:
      throw new InvalidParams(`Unknown type of content block: ${JSON.stringify(type)}`);
  }
}

function resource(
  content: string,
  uri: string,
  ownType: string | undefined,
  metadata: JsonObject,
): JsonObject {
  const mimeType = textOf(metadata.mimeType) ?? ownType;
  const body = metadata.encoding === "base64" ? { blob: content } : { text: content };
  return { type: "resource", resource: { uri, ...(mimeType === undefined ? {} : { mimeType }), ...body } };
}

function fileLink(place: string, metadata: JsonObject): JsonObject {
  const name = textOf(metadata.name);
  const mimeType = textOf(metadata.mimeType);
  return {
    ...link(place),
    ...(name === undefined ? {} : { name }),
    ...(mimeType === undefined ? {} : { mimeType }),
  };
}

function placeOf(metadata: JsonObject): string | undefined {
  const path = textOf(metadata.path);
  return textOf(metadata.uri) ?? (path === undefined ? undefined : fileUri(path));
}

function imageData(content: string, metadata: JsonObject): { data: string; mimeType: string } {
  const inline = /^data:([^;,]+);base64,/.exec(content);
  if (inline) return { mimeType: inline[1] as string, data: content.slice(inline[0].length) };
  const [, sniffed] = IMAGE_TYPES.find(([start]) => content.startsWith(start)) ?? [];
  const mimeType = textOf(metadata.mimeType) ?? sniffed;
  if (mimeType === undefined) throw new InvalidParams("An image needs metadata.mimeType or a data: URI");
  return { data: content, mimeType };
}

/** The first base64 characters of each image format. */
const IMAGE_TYPES = [
  ["iVBORw0KGgo", "image/png"],
  ["/9j/", "image/jpeg"],
  ["R0lGOD", "image/gif"],
  ["UklGR", "image/webp"],
] as const;

function isCanonical({ type, text: said, data, uri, resource: embedded }: JsonObject): boolean {
  switch (type) {
    case "text":
      return typeof said === "string";
    case "image":
    case "audio":
      return typeof data === "string";
    case "resource_link":
      return typeof uri === "string";
    case "resource":
      return isRecord(embedded);
    default:
      return false;
  }
}

// ---- to the client --------------------------------------------------------------------------------------

/** A canonical content block as this dialect shows it, with `more` added to its metadata. */
export function plainBlock(block: unknown, more: JsonObject = {}): JsonObject {
  const { type, content, metadata } = shown(recordOf(block));
  const all = { ...returned(metadata), ...more };
  return { type, content, ...(Object.keys(all).length > 0 ? { metadata: all } : {}) };
}

/** One item of a tool call's content: a content block, a diff or a terminal. */
export function toolBlock(item: unknown, more: JsonObject): JsonObject {
  const { type, content, ...rest } = recordOf(item);
  switch (type) {
    case "content":
      return plainBlock(content, { ...rest, ...more });
    case "diff":
      return {
        type: "diff",
        content: unifiedDiff(textOf(rest.path) ?? "", textOf(rest.oldText) ?? "", textOf(rest.newText) ?? ""),
        metadata: { ...rest, ...more },
      };
    default:
      return { type: "text", content: "", metadata: { ...recordOf(item), ...more } };
  }
}

function shown(block: JsonObject): { type: string; content: string; metadata: JsonObject } {
  const { type, ...rest } = block;
  switch (type) {
    case "text": {
      const sort = recordOf(rest._meta)[MetaKey.blockType] === "thought" ? "thought" : "text";
      return { type: sort, content: textOf(rest.text) ?? "", metadata: without(rest, "text") };
    }
    case "image":
      return { type: "image", content: textOf(rest.data) ?? "", metadata: without(rest, "data") };
    case "audio":
      return {
        type: "file",
        content: textOf(rest.data) ?? "",
        metadata: { type, encoding: "base64", ...without(rest, "data") },
      };
    case "resource_link":
      return { type: "file", content: textOf(rest.uri) ?? "", metadata: without(rest, "uri") };
    case "resource": {
      const { text: said, blob, ...about } = recordOf(rest.resource);
      const sort = about.mimeType === DIFF_TYPE ? "diff" : "file";
      const encoding = textOf(said) === undefined ? { encoding: "base64" } : {};
      return {
        type: sort,
        content: textOf(said) ?? textOf(blob) ?? "",
        metadata: { ...about, ...encoding, ...without(rest, "resource") },
      };
    }
    default:
      return { type: "text", content: "", metadata: block };
  }
}

/** Metadata that a client of this dialect sent becomes metadata again. */
function returned(metadata: JsonObject): JsonObject {
  const meta = recordOf(metadata._meta);
  if (!(MetaKey.blockMetadata in meta) && !(MetaKey.blockType in meta)) return metadata;
  const rest = without(meta, MetaKey.blockMetadata, MetaKey.blockType);
  return {
    ...without(metadata, "_meta"),
    ...recordOf(meta[MetaKey.blockMetadata]),
    ...(Object.keys(rest).length > 0 ? { _meta: rest } : {}),
  };
}
