// Shapes of what the server sends and takes, as far as the pages use them.

/** Times of an answer; sent with the last chunk, and with every one where asked for. */
export interface Timings {
  cache_n: number;
  prompt_n: number;
  prompt_ms: number;
  prompt_per_second: number;
  predicted_n: number;
  predicted_ms: number;
  predicted_per_second: number;
}

export interface Props {
  model_path?: string;
  model_alias?: string;
  total_slots?: number;
  build_info?: string;
  /** What the model takes beside text. */
  modalities?: { vision?: boolean; audio?: boolean };
  default_generation_settings?: { n_ctx?: number; params?: Record<string, unknown> };
}

export interface Model {
  id: string;
  /** Where it is: loaded, loading, sleeping or unloaded. */
  status?: { value: string; failed?: boolean; error?: string };
}

/** A call of a function by the model; the arguments are JSON text, whole only when the answer is over. */
export interface Call {
  id: string;
  name: string;
  arguments: string;
}

/** What a stream of an answer brings, piece by piece. */
export interface Delta {
  content?: string;
  reasoning?: string;
  calls?: { index: number; id?: string; name?: string; arguments?: string }[];
  finish?: string;
  timings?: Timings;
  /** Tokens of the prompt that are computed, of how many. */
  progress?: { processed: number; total: number };
  model?: string;
}

export type Part =
  | { type: "text"; text: string }
  | { type: "image_url"; image_url: { url: string } }
  | { type: "input_audio"; input_audio: { data: string; format: string } };

export interface ChatMessage {
  role: string;
  content: string | Part[] | null;
  reasoning_content?: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}
