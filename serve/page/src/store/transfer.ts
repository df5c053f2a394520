// Conversations as files, out and in.
import type { Attachment, Conversation, Message } from "./conversation";
import { newId, titleOf } from "./conversation";
import { isOwn } from "./media";

const KIND = "pumex.conversations";

export function exported(conversations: Conversation[]): string {
  return JSON.stringify({ kind: KIND, version: 1, conversations }, null, 2);
}

/** Hands a text to the browser as a file to keep. */
export function download(name: string, text: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function fileName(conversations: Conversation[]): string {
  const name = conversations.length === 1 ? titleOf(conversations[0]) : "conversations";
  return `${name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 50) || "conversation"}.json`;
}

/** Conversations of a file, each with a new id. Every field is checked, as the file may come from anywhere. */
export function imported(text: string): Conversation[] {
  const file = JSON.parse(text);
  if (file?.kind !== KIND || !Array.isArray(file.conversations)) throw new Error("This is no file of conversations.");
  return file.conversations.map(checked);
}

function checked(read: any): Conversation {
  const messages: Record<string, Message> = {};
  for (const message of Object.values<any>(read?.messages ?? {})) {
    if (typeof message?.id !== "string" || !["user", "assistant", "tool"].includes(message.role)) continue;
    messages[message.id] = {
      id: message.id,
      parent: text(message.parent),
      role: message.role,
      content: text(message.content),
      created: number(message.created),
      reasoning: text(message.reasoning) || undefined,
      reasoningMs: number(message.reasoningMs) || undefined,
      calls: list(message.calls, (c) => ({ id: text(c.id), name: text(c.name), arguments: text(c.arguments) })),
      files: list(message.files, file),
      callId: text(message.callId) || undefined,
      model: text(message.model) || undefined,
      finish: text(message.finish) || "stop",
    };
  }
  const chosen = Object.entries(read?.chosen ?? {}).filter(([, id]) => typeof id === "string" && id in messages);
  return {
    id: newId(),
    title: text(read?.title),
    named: read?.named === true,
    created: number(read?.created),
    updated: number(read?.updated),
    system: text(read?.system),
    model: text(read?.model),
    messages,
    chosen: Object.fromEntries(chosen) as Record<string, string>,
  };
}

function file(read: any): Attachment {
  const found: Attachment = { name: text(read.name), text: text(read.text) };
  const kind = read.kind === "image" || read.kind === "audio" ? (read.kind as "image" | "audio") : undefined;
  if (!kind || !isOwn(text(read.url), kind)) return found;
  return { ...found, kind, url: text(read.url), format: text(read.format) || undefined };
}

const text = (value: unknown) => (typeof value === "string" ? value : "");
const number = (value: unknown) => (typeof value === "number" && Number.isFinite(value) ? value : 0);

function list<T>(value: unknown, read: (item: any) => T): T[] | undefined {
  return Array.isArray(value) && value.length ? value.map((item) => read(item ?? {})) : undefined;
}
