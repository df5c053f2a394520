// A conversation is a tree of messages. Each message names the one before it; of those that follow the same message one is chosen,
// and the chosen ones from the root on are what is shown and sent. Everything here is a pure function: changed copies, no changes.
import type { Call, ChatMessage, Part, Timings } from "../api/types";

export interface Attachment {
  name: string;
  /** Of a text file. */
  text: string;
  /** Of a picture or a sound: that it is one, and its `data:` URL. */
  kind?: "image" | "audio";
  url?: string;
  /** The sound's, as wav. */
  format?: string;
}

export interface Message {
  id: string;
  /** The message before it; "" for a first one. */
  parent: string;
  role: "user" | "assistant" | "tool";
  content: string;
  created: number;
  reasoning?: string;
  /** Milliseconds from the first to the last piece of reasoning. */
  reasoningMs?: number;
  calls?: Call[];
  /** Of a tool's result: the call it answers. */
  callId?: string;
  files?: Attachment[];
  model?: string;
  timings?: Timings;
  /** Why the answer is over; missing while it is being written. */
  finish?: string;
  error?: string;
}

export interface Conversation {
  id: string;
  title: string;
  /** Whether the user gave the title. */
  named?: boolean;
  created: number;
  updated: number;
  system: string;
  model: string;
  messages: Record<string, Message>;
  /** Of those that follow a message ("" for the first ones), the chosen one. */
  chosen: Record<string, string>;
}

export function newId(): string {
  // Not randomUUID: that is missing where a page is not served over TLS or from this machine.
  const bytes = crypto.getRandomValues(new Uint8Array(10));
  return "m" + Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

export function newConversation(system: string, model: string, now = Date.now()): Conversation {
  return { id: newId(), title: "", created: now, updated: now, system, model, messages: {}, chosen: {} };
}

/** Messages that follow the same one, oldest first. */
export function children(conversation: Conversation, parent: string): Message[] {
  return Object.values(conversation.messages).filter((m) => m.parent === parent);
}

/** The chosen messages from the first on. */
export function path(conversation: Conversation): Message[] {
  const found: Message[] = [];
  for (let id = conversation.chosen[""]; id !== undefined; id = conversation.chosen[id]) {
    const message = conversation.messages[id];
    if (!message || found.length > 100_000) break;
    found.push(message);
  }
  return found;
}

/** The message and all before it, from the first on. */
export function upTo(conversation: Conversation, id: string): Message[] {
  const found: Message[] = [];
  for (let m = conversation.messages[id]; m; m = conversation.messages[m.parent]) found.unshift(m);
  return found;
}

/** Adds a message behind its parent and chooses it. */
export function add(conversation: Conversation, message: Message): Conversation {
  return {
    ...conversation,
    updated: Date.now(),
    messages: { ...conversation.messages, [message.id]: message },
    chosen: { ...conversation.chosen, [message.parent]: message.id },
  };
}

/** Changes fields of a message. */
export function change(conversation: Conversation, id: string, fields: Partial<Message>): Conversation {
  const message = conversation.messages[id];
  if (!message) return conversation;
  return { ...conversation, messages: { ...conversation.messages, [id]: { ...message, ...fields } } };
}

export function choose(conversation: Conversation, id: string): Conversation {
  const { parent } = conversation.messages[id];
  return { ...conversation, chosen: { ...conversation.chosen, [parent]: id } };
}

/** Takes a message and all that follows it out; the sibling before it is chosen then. */
export function remove(conversation: Conversation, id: string): Conversation {
  const { parent } = conversation.messages[id];
  const siblings = children(conversation, parent);
  const at = siblings.findIndex((m) => m.id === id);
  const messages = { ...conversation.messages };
  const chosen = { ...conversation.chosen };
  const gone = [id];
  for (let next = gone.pop(); next !== undefined; next = gone.pop()) {
    gone.push(...children(conversation, next).map((m) => m.id));
    delete messages[next];
    delete chosen[next];
  }
  const next = siblings[at - 1] ?? siblings[at + 1];
  if (next) chosen[parent] = next.id;
  else delete chosen[parent];
  return { ...conversation, messages, chosen, updated: Date.now() };
}

/** A title until the user gives one: the beginning of the first message. */
export function titleOf(conversation: Conversation): string {
  if (conversation.title) return conversation.title;
  const first = path(conversation)[0];
  const text = first?.content.trim() || first?.files?.[0]?.name || "";
  const line = text.split("\n")[0];
  return line.length > 60 ? line.slice(0, 59).trimEnd() + "…" : line || "New conversation";
}

/** Text of a user's message with its files, as the model gets it. */
export function withFiles(message: Message): string {
  const files = (message.files ?? []).filter((file) => !file.kind).map(({ name, text }) => {
    const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
    const fence = "`".repeat(longest + 1);
    return `File: ${name}\n${fence}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}`;
  });
  return [...files, message.content].filter((part) => part !== "").join("\n\n");
}

/** What the model gets of a user's message: its pictures and sounds, then its text. */
function contentOf(message: Message): string | Part[] {
  const text = withFiles(message);
  const media = (message.files ?? []).flatMap(({ kind, url = "", format = "" }): Part[] => {
    if (kind === "image") return [{ type: "image_url", image_url: { url } }];
    if (kind === "audio") return [{ type: "input_audio", input_audio: { data: url.slice(url.indexOf(",") + 1), format } }];
    return [];
  });
  if (!media.length) return text;
  return text ? [...media, { type: "text", text }] : media;
}

/** Messages as the server takes them. */
export function toRequest(system: string, messages: Message[]): ChatMessage[] {
  const sent: ChatMessage[] = system.trim() ? [{ role: "system", content: system }] : [];
  for (const message of messages) {
    if (message.role === "tool") {
      sent.push({ role: "tool", content: message.content, tool_call_id: message.callId });
    } else if (message.role === "user") {
      sent.push({ role: "user", content: contentOf(message) });
    } else if (message.content || message.reasoning || message.calls?.length) {
      const answer: ChatMessage = { role: "assistant", content: message.content };
      if (message.reasoning) answer.reasoning_content = message.reasoning;
      if (message.calls?.length) {
        answer.tool_calls = message.calls.map(({ id, name, arguments: text }) => ({
          id,
          type: "function",
          function: { name, arguments: text },
        }));
      }
      sent.push(answer);
    }
  }
  return sent;
}
