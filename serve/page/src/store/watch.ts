// Asks the server every second what it does, and keeps two minutes of it.
import { signal } from "@preact/signals";
import { ApiError, getModels, getProps, keyWanted, request } from "../api/client";
import { parseMetrics, total, type Metric } from "../api/metrics";
import type { Model, Props } from "../api/types";

/** A slot as /slots tells it. */
export interface Slot {
  id: number;
  n_ctx: number;
  is_processing: boolean;
  id_task?: number;
  /** Tokens that it holds. */
  n_held?: number;
  n_prompt_tokens?: number;
  n_prompt_tokens_processed?: number;
  next_token?: { n_decoded?: number; n_remain?: number }[] | { n_decoded?: number; n_remain?: number };
}

export const SECONDS = 120;

/** Lines that are drawn; each holds up to `SECONDS` values, the newest last. */
export const SERIES = ["generated", "prompt", "steps", "running", "waiting", "cache", "hits"] as const;
export type Series = (typeof SERIES)[number];

const none = () => Object.fromEntries(SERIES.map((s) => [s, []])) as unknown as Record<Series, number[]>;

export const series = signal(none());
export const metrics = signal<Map<string, Metric>>(new Map());
export const slots = signal<Slot[]>([]);
export const props = signal<Props>({});
/** All models that requests may name. */
export const models = signal<Model[]>([]);
/** The one that is shown, where there are several. */
export const chosen = signal("");
/** Why something is not shown, by what is missing; "" that all is well. */
export const trouble = signal({ server: "", slots: "", metrics: "" });

let round = 0;
let before: { time: number; metrics: Map<string, Metric> } | undefined;

/** Shows another model, from now on. */
export function choose(model: string) {
  chosen.value = model;
  [before, round, series.value, slots.value, metrics.value] = [undefined, 0, none(), [], new Map()];
  void ask(round++);
}

export function watch() {
  const tick = async () => {
    if (!document.hidden && !keyWanted.value) await ask(round++);
    setTimeout(tick, 1000);
  };
  void tick();
}

async function ask(round: number) {
  const missing = { server: "", slots: "", metrics: "" };
  const several = models.value.length > 1;
  // States change at any time, one model's name does not.
  const listed = await Promise.allSettled([several || round % 5 === 0 ? getModels() : models.value]);
  if (listed[0].status === "fulfilled") models.value = listed[0].value;
  const asked = models.value.length > 1 ? shown(models.value) : undefined;
  const query = asked ? `?model=${encodeURIComponent(asked)}` : "";
  const [about, held, told] = await Promise.allSettled([
    round % 5 === 0 || trouble.value.server ? getProps(asked) : props.value,
    request(`slots${query}`).then((r) => r.json()),
    request(`metrics${query}`).then((r) => r.text()),
  ]);
  // Another one was chosen meanwhile.
  if (asked && asked !== chosen.value) return;
  if (about.status === "fulfilled") props.value = about.value;
  else if (failure(about.reason) !== 401) missing.server = about.reason.message;
  if (held.status === "fulfilled") slots.value = held.value;
  else missing.slots = held.reason.message;
  if (told.status === "fulfilled") take(parseMetrics(told.value), performance.now() / 1000);
  else missing.metrics = told.reason.message;
  if ([held, told].every((r) => r.status === "rejected" && failure(r.reason) === 0)) missing.server = "The server cannot be reached.";
  trouble.value = missing;
}

/** The model that was chosen; at first one that is loaded. */
function shown(all: Model[]): string {
  if (!all.some((m) => m.id === chosen.value)) chosen.value = (all.find((m) => m.status?.value === "loaded") ?? all[0]).id;
  return chosen.value;
}

const failure = (error: unknown) => (error instanceof ApiError ? error.status : -1);

function take(now: Map<string, Metric>, time: number) {
  metrics.value = now;
  const rate = (...names: string[]) => {
    const [a, b] = [before && total(before.metrics, ...names), total(now, ...names)];
    // A counter that went back is that of another server.
    return before && a !== undefined && b !== undefined && b >= a ? (b - a) / (time - before.time) : undefined;
  };
  const cached = rate("llamacpp:prompt_tokens_cached_total", "vllm:prefix_cache_hits_total");
  const computed = rate("llamacpp:prompt_tokens_total");
  const values: Record<Series, number | undefined> = {
    generated: rate("llamacpp:tokens_predicted_total", "vllm:generation_tokens_total"),
    prompt: computed,
    steps: rate("llamacpp:n_decode_total"),
    running: total(now, "llamacpp:requests_processing", "vllm:num_requests_running"),
    waiting: total(now, "llamacpp:requests_deferred", "vllm:num_requests_waiting"),
    cache: total(now, "vllm:kv_cache_usage_perc", "llamacpp:kv_cache_usage_ratio"),
    hits: cached !== undefined && computed !== undefined && cached + computed > 0 ? cached / (cached + computed) : undefined,
  };
  before = { time, metrics: now };
  const next = { ...series.value };
  for (const name of SERIES) {
    const value = values[name] ?? (name === "hits" ? next.hits.at(-1) : undefined);
    if (value !== undefined) next[name] = [...next[name], value].slice(-SECONDS);
  }
  series.value = next;
}
