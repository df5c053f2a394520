// All conversations, and which one is shown.
import { computed, signal } from "@preact/signals";
import * as tree from "./conversation";
import type { Conversation } from "./conversation";
import * as database from "./database";
import { settings } from "./settings";

export const conversations = signal<ReadonlyMap<string, Conversation>>(new Map());
/** Id of the one shown; "" is a new one, which comes to be with its first message. */
export const shown = signal("");
/** Model and system prompt of the next new one. */
export const draft = signal({ model: "", system: undefined as string | undefined });

export const current = computed(() => conversations.value.get(shown.value));
export const newestFirst = computed(() => [...conversations.value.values()].sort((a, b) => b.updated - a.updated));

/** Other pages of the browser are told what changed, so that none writes over the other's. */
const pages = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("pumex");
const waiting = new Map<string, ReturnType<typeof setTimeout>>();

export async function load(): Promise<void> {
  const read = await database.readAll().catch(() => []);
  // What was being written when the page was closed is over.
  for (const conversation of read) {
    for (const message of Object.values(conversation.messages)) {
      if (message.role === "assistant" && !message.finish && !message.error) message.finish = "interrupted";
    }
  }
  conversations.value = new Map(read.map((c) => [c.id, c]));
  fromAddress();
  addEventListener("hashchange", fromAddress);
  addEventListener("pagehide", () => [...waiting.keys()].forEach(writeNow));
  if (pages) pages.onmessage = ({ data }) => fromElsewhere(data);
}

function fromAddress() {
  const id = location.hash.slice(1);
  shown.value = conversations.value.has(id) ? id : "";
}

function fromElsewhere(data: { changed?: Conversation; removed?: string }) {
  const all = new Map(conversations.value);
  if (data.changed) all.set(data.changed.id, data.changed);
  if (data.removed) all.delete(data.removed);
  conversations.value = all;
  if (data.removed === shown.value) show("");
}

export function show(id: string) {
  shown.value = id;
  const address = id ? `#${id}` : location.pathname + location.search;
  if (location.hash !== (id ? `#${id}` : "")) history.pushState(null, "", address);
}

/** Puts a conversation in its place and on disk: at once, or within a second while it changes all the time. */
export function put(conversation: Conversation, soon = false) {
  conversations.value = new Map(conversations.value).set(conversation.id, conversation);
  if (!soon) writeNow(conversation.id);
  else if (!waiting.has(conversation.id)) {
    waiting.set(conversation.id, setTimeout(() => writeNow(conversation.id), 1000));
  }
}

function writeNow(id: string) {
  clearTimeout(waiting.get(id));
  waiting.delete(id);
  const conversation = conversations.value.get(id);
  if (!conversation) return;
  database.write(conversation).catch(() => undefined);
  pages?.postMessage({ changed: conversation });
}

/** Changes a conversation that is still there. */
export function update(id: string, changed: (conversation: Conversation) => Conversation, soon = false) {
  const conversation = conversations.value.get(id);
  if (conversation) put(changed(conversation), soon);
}

export function remove(id: string) {
  clearTimeout(waiting.get(id));
  waiting.delete(id);
  const all = new Map(conversations.value);
  all.delete(id);
  conversations.value = all;
  database.erase(id).catch(() => undefined);
  pages?.postMessage({ removed: id });
  if (shown.value === id) show("");
}

/** The one shown, or a new one in its place. */
export function ensure(): Conversation {
  if (current.value) return current.value;
  const conversation = tree.newConversation(draft.value.system ?? settings.value.system, draft.value.model);
  draft.value = { ...draft.value, system: undefined };
  put(conversation);
  show(conversation.id);
  return conversation;
}

export function rename(id: string, title: string) {
  update(id, (c) => ({ ...c, title: title.trim(), named: title.trim() !== "" }));
}
