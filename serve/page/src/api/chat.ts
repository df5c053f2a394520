// One answer of /v1/chat/completions, as a stream of deltas.
import { ApiError, errorOf, request } from "./client";
import { events } from "./sse";
import type { ChatMessage, Delta } from "./types";

export interface ChatRequest {
  model?: string;
  messages: ChatMessage[];
  /** Sampling and all else of the body, under the server's names. */
  options: Record<string, unknown>;
}

/** Yields deltas until the answer is over. A stream that ends without saying so is an error. */
export async function* streamChat(chat: ChatRequest, signal: AbortSignal): AsyncGenerator<Delta> {
  const { options, ...rest } = chat;
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      ...options,
      ...rest,
      stream: true,
      stream_options: { include_usage: true },
      timings_per_token: true,
      return_progress: true,
    }),
    signal,
  });
  if (!response.body) throw new ApiError(0, "The server sent no answer.");
  let finished = false;
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const failure = errorOf(data);
    if (failure) throw new ApiError(response.status, failure[0], failure[1]);
    const delta = deltaOf(data);
    if (!delta) continue;
    finished ||= delta.finish !== undefined;
    yield delta;
  }
  if (!finished) throw new ApiError(0, "The connection broke off before the answer was over.");
}

/** Reads a chunk; what it does not know it passes over. */
export function deltaOf(data: string): Delta | undefined {
  let chunk: any;
  try {
    chunk = JSON.parse(data);
  } catch {
    return undefined;
  }
  const choice = chunk.choices?.[0];
  const delta = choice?.delta ?? {};
  const calls = Array.isArray(delta.tool_calls) ? delta.tool_calls : [];
  return {
    content: text(delta.content),
    reasoning: text(delta.reasoning_content) ?? text(delta.reasoning),
    calls: calls.map((call: any, i: number) => ({
      index: call.index ?? i,
      id: text(call.id),
      name: text(call.function?.name),
      arguments: text(call.function?.arguments),
    })),
    finish: text(choice?.finish_reason),
    timings: chunk.timings,
    progress: chunk.prompt_progress,
    model: text(chunk.model),
  };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
