// Answers that are being written, at most one for each conversation.
import { signal } from "@preact/signals";
import { streamChat } from "../api/chat";
import { ApiError } from "../api/client";
import type { Call, Delta } from "../api/types";
import * as tree from "./conversation";
import type { Attachment, Conversation, Message } from "./conversation";
import { toFields } from "./sampling";
import { describeAwake } from "./server";
import { settings } from "./settings";
import { conversations, ensure, put, update } from "./state";

export interface Running {
  /** The message that grows. */
  message: string;
  stop: () => void;
  /** Share of the prompt that is computed, while that is less than all. */
  progress?: number;
}

/** The conversation as it is now. */
export const latest = (id: string): Conversation | undefined => conversations.peek().get(id);

/** By conversation. */
export const running = signal<ReadonlyMap<string, Running>>(new Map());
/** Told to screen readers. */
export const announcement = signal("");

function setRunning(conversation: string, state: Running | undefined) {
  const all = new Map(running.value);
  if (state) all.set(conversation, state);
  else all.delete(conversation);
  running.value = all;
}

/** Sends a message in the conversation shown. */
export function send(content: string, files: Attachment[]) {
  const conversation = ensure();
  const last = tree.path(conversation).at(-1);
  sendBehind(conversation, last?.id ?? "", content, files);
}

/** Sends a message in place of another: a branch beside it. */
export function sendInstead(conversation: Conversation, message: Message, content: string, files: Attachment[]) {
  sendBehind(conversation, message.parent, content, files);
}

function sendBehind(conversation: Conversation, parent: string, content: string, files: Attachment[]) {
  const message: Message = { id: tree.newId(), parent, role: "user", content, created: Date.now() };
  if (files.length) message.files = files;
  put(tree.add(conversation, message));
  answer(conversation.id, message.id);
}

/** Results of the calls of an answer, in their order; the model goes on from them. */
export function sendResults(conversation: Conversation, message: Message, results: string[]) {
  let changed = conversation;
  let parent = message.id;
  for (const [i, call] of (message.calls ?? []).entries()) {
    const result: Message = {
      id: tree.newId(),
      parent,
      role: "tool",
      content: results[i] ?? "",
      callId: call.id,
      created: Date.now(),
    };
    changed = tree.add(changed, result);
    parent = result.id;
  }
  put(changed);
  answer(conversation.id, parent);
}

/** Writes another answer beside this one. */
export function regenerate(conversation: Conversation, message: Message) {
  answer(conversation.id, message.parent);
}

/** Keeps an edited answer beside the original. */
export function keepEdited(conversation: Conversation, message: Message, content: string) {
  put(tree.add(conversation, { ...message, id: tree.newId(), content, created: Date.now(), finish: "edited", error: undefined }));
}

/** Writes an answer to the message. */
export function answer(conversationId: string, parent: string) {
  const conversation = conversations.value.get(conversationId);
  if (!conversation || running.value.has(conversationId)) return;
  const message: Message = { id: tree.newId(), parent, role: "assistant", content: "", created: Date.now() };
  put(tree.add(conversation, message));
  void write(conversationId, message.id, parent);
}

/** Goes on with an answer that was cut off. */
export function goOn(conversation: Conversation, message: Message) {
  if (running.value.has(conversation.id)) return;
  update(conversation.id, (c) => tree.change(c, message.id, { finish: undefined, error: undefined }));
  void write(conversation.id, message.id, message.id);
}

/** Streams into a message what follows `last`. */
async function write(conversationId: string, messageId: string, last: string) {
  const conversation = conversations.value.get(conversationId)!;
  const stopper = new AbortController();
  const state: Running = { message: messageId, stop: () => stopper.abort() };
  setRunning(conversationId, state);
  announcement.value = "The answer is being written.";
  const pieces = new Pieces(conversationId, messageId);
  try {
    const request = {
      model: conversation.model || undefined,
      messages: tree.toRequest(conversation.system, tree.upTo(conversation, last)),
      options: toFields(settings.value.overrides),
    };
    for await (const delta of streamChat(request, stopper.signal)) {
      if (delta.progress && delta.progress.total > 0) {
        const progress = delta.progress.processed / delta.progress.total;
        setRunning(conversationId, { ...state, progress: progress < 1 ? progress : undefined });
      }
      pieces.take(delta);
    }
    pieces.end({ finish: pieces.finish ?? "stop" });
    announcement.value = "The answer is complete.";
    describeAwake();
  } catch (error) {
    if (stopper.signal.aborted) {
      pieces.end({ finish: "stopped" });
      announcement.value = "Stopped.";
    } else {
      const text = error instanceof ApiError || error instanceof Error ? error.message : String(error);
      pieces.end({ error: text });
      announcement.value = `The answer failed: ${text}`;
    }
  } finally {
    setRunning(conversationId, undefined);
  }
}

/** Collects deltas and writes them into the message at most once a frame. */
class Pieces {
  finish?: string;
  private waiting: Delta[] = [];
  private frame = 0;
  private reasoningSince = 0;

  constructor(
    private conversation: string,
    private message: string,
  ) {}

  take(delta: Delta) {
    this.finish = delta.finish ?? this.finish;
    this.waiting.push(delta);
    // A page in the background gets no frames; a timer still runs there.
    this.frame ||= window.setTimeout(() => this.flush(), document.hidden ? 500 : 40);
  }

  end(fields: Partial<Message>) {
    clearTimeout(this.frame);
    this.flush(fields, false);
  }

  private flush(fields: Partial<Message> = {}, soon = true) {
    this.frame = 0;
    const deltas = this.waiting.splice(0);
    update(
      this.conversation,
      (c) => {
        const message = c.messages[this.message];
        return message ? tree.change(c, this.message, { ...this.joined(message, deltas), ...fields }) : c;
      },
      soon,
    );
  }

  private joined(message: Message, deltas: Delta[]): Partial<Message> {
    let { content, reasoning, reasoningMs, timings, model } = message;
    let calls = message.calls;
    for (const delta of deltas) {
      if (delta.content) content += delta.content;
      if (delta.reasoning) {
        this.reasoningSince ||= performance.now();
        reasoning = (reasoning ?? "") + delta.reasoning;
        reasoningMs = performance.now() - this.reasoningSince;
      }
      if (delta.calls?.length) calls = withCalls(calls ?? [], delta.calls);
      timings = delta.timings ?? timings;
      model = delta.model ?? model;
    }
    return { content, reasoning, reasoningMs, calls, timings, model };
  }
}

function withCalls(calls: Call[], deltas: NonNullable<Delta["calls"]>): Call[] {
  const joined = calls.map((call) => ({ ...call }));
  for (const { index, id, name, arguments: text } of deltas) {
    const call = (joined[index] ??= { id: "", name: "", arguments: "" });
    call.id = id ?? call.id;
    call.name = name ?? call.name;
    call.arguments += text ?? "";
  }
  return joined;
}
