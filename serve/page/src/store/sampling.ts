// Every option of llama.cpp's sampler, as a form shows it. The server's defaults come from /props; only what differs is sent.

export interface Option {
  /** Name in a request. */
  name: string;
  /** Name among the defaults of /props, where it is another one. */
  default?: string;
  label: string;
  hint: string;
  kind: "number" | "text" | "list" | "switch" | "json";
  min?: number;
  max?: number;
  step?: number;
}

export interface Group {
  title: string;
  options: Option[];
}

const number = (name: string, label: string, hint: string, min: number, max: number, step: number): Option => ({
  name,
  label,
  hint,
  kind: "number",
  min,
  max,
  step,
});

export const GROUPS: Group[] = [
  {
    title: "Basics",
    options: [
      number("temperature", "Temperature", "Higher is more varied; 0 always takes the likeliest token.", 0, 5, 0.05),
      number("top_k", "Top-k", "Only the k likeliest tokens; 0 is no limit.", 0, 1000, 1),
      number("top_p", "Top-p", "Only the likeliest tokens that together have this probability.", 0, 1, 0.01),
      number("min_p", "Min-p", "Only tokens at least this likely beside the likeliest.", 0, 1, 0.01),
      { ...number("max_tokens", "Longest answer", "In tokens; -1 is until the context is full.", -1, 1e7, 1), default: "n_predict" },
      number("seed", "Seed", "The same seed gives the same answer; -1 takes another each time.", -1, 4294967295, 1),
      { name: "stop", label: "Stop texts", hint: "One a line; an answer ends before any of them.", kind: "list" },
    ],
  },
  {
    title: "Repetition",
    options: [
      number("repeat_penalty", "Repeat penalty", "Divides scores of recent tokens; 1 is off.", 0, 5, 0.01),
      number("repeat_last_n", "Recent tokens", "How far back penalties look; -1 is the whole context.", -1, 1e6, 1),
      number("presence_penalty", "Presence penalty", "Taken off each token that occurred.", -2, 2, 0.05),
      number("frequency_penalty", "Frequency penalty", "Taken off each token as often as it occurred.", -2, 2, 0.05),
      number("dry_multiplier", "DRY strength", "Holds back sequences that were there before; 0 is off.", 0, 10, 0.05),
      number("dry_base", "DRY base", "How the penalty grows with the sequence's length.", 1, 10, 0.05),
      number("dry_allowed_length", "DRY free length", "Sequences up to this length may be repeated.", 0, 1000, 1),
      number("dry_penalty_last_n", "DRY reach", "How far back it looks; -1 is the whole context.", -1, 1e6, 1),
      { name: "dry_sequence_breakers", label: "DRY breakers", hint: "One a line; sequences end at them.", kind: "list" },
    ],
  },
  {
    title: "More of the sampler",
    options: [
      number("typical_p", "Typical-p", "Only tokens about as surprising as usual; 1 is off.", 0, 1, 0.01),
      number("top_n_sigma", "Top-n sigma", "Only scores within n deviations of the best; -1 is off.", -1, 10, 0.1),
      number("xtc_probability", "XTC chance", "How often the likeliest tokens are left out.", 0, 1, 0.01),
      number("xtc_threshold", "XTC threshold", "Leaves out those above it, but the last of them.", 0, 1, 0.01),
      number("dynatemp_range", "Temperature range", "How far the temperature may move; 0 is off.", 0, 5, 0.05),
      number("dynatemp_exponent", "Range exponent", "How entropy moves it.", 0, 10, 0.05),
      number("mirostat", "Mirostat", "1 or 2 replaces the other cuts; 0 is off.", 0, 2, 1),
      number("mirostat_tau", "Mirostat target", "Surprise that it holds.", 0, 20, 0.1),
      number("mirostat_eta", "Mirostat rate", "How fast it learns.", 0, 1, 0.01),
      number("adaptive_target", "Adaptive-p target", "Probability that draws tend to; -1 is off.", -1, 1, 0.01),
      number("adaptive_decay", "Adaptive-p decay", "How long it remembers.", 0, 0.99, 0.01),
      number("min_keep", "Keep at least", "Tokens that every cut leaves.", 0, 1000, 1),
      { name: "samplers", label: "Order", hint: "Steps of the chain, one a line.", kind: "list" },
      { name: "ignore_eos", label: "Never end by itself", hint: "Bans the tokens that end a text.", kind: "switch" },
      { name: "logit_bias", label: "Bias", hint: "JSON, as [[\"word\", -1.5], [\"other\", false]].", kind: "json" },
    ],
  },
  {
    title: "Form of answers",
    options: [
      { name: "json_schema", label: "JSON schema", hint: "Answers are JSON of this schema.", kind: "json" },
      { name: "grammar", label: "Grammar", hint: "Answers are of this GBNF grammar.", kind: "text" },
      { name: "tools", label: "Functions", hint: "JSON, a list of functions that the model may call.", kind: "json" },
      { name: "chat_template_kwargs", label: "Template options", hint: 'JSON, as {"enable_thinking": false}.', kind: "json" },
    ],
  },
  {
    title: "Server",
    options: [
      number("n_keep", "Keep at the start", "Tokens that stay when the context is full; -1 is the prompt.", -1, 1e6, 1),
      number("id_slot", "Slot", "-1 is any.", -1, 1000, 1),
      { name: "cache_prompt", label: "Reuse what is computed", hint: "The beginning that prompts share.", kind: "switch" },
      { name: "extra", label: "Further fields", hint: "JSON, an object; its fields are added to each request.", kind: "json" },
    ],
  },
];

export const OPTIONS: Option[] = GROUPS.flatMap((group) => group.options);

/** Texts as they stand in the form, by name; what is missing or empty is the server's default. */
export type Overrides = Record<string, string>;

/** Why a text cannot be taken; none if it can. */
export function fault(option: Option, text: string): string | undefined {
  if (text.trim() === "") return undefined;
  if (option.kind === "number") {
    const value = Number(text);
    if (!Number.isFinite(value)) return "Not a number.";
    if (value < option.min! || value > option.max!) return `From ${option.min} to ${option.max}.`;
  } else if (option.kind === "json") {
    try {
      const value = JSON.parse(text);
      if (option.name === "extra" && (typeof value !== "object" || value === null || Array.isArray(value))) return "Not an object.";
    } catch (error) {
      return error instanceof Error ? error.message : "Not JSON.";
    }
  }
  return undefined;
}

/** Fields of a request; texts at fault are left out. */
export function toFields(overrides: Overrides): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const option of OPTIONS) {
    const text = overrides[option.name] ?? "";
    if (text.trim() === "" || fault(option, text)) continue;
    if (option.name === "extra") Object.assign(fields, JSON.parse(text));
    else fields[option.name] = valueOf(option, text);
  }
  return fields;
}

function valueOf(option: Option, text: string): unknown {
  switch (option.kind) {
    case "number":
      return Number(text);
    case "list":
      return text.split("\n").filter((line) => line !== "").map((line) => line.replaceAll("\\n", "\n"));
    case "switch":
      return text === "true";
    case "json":
      return JSON.parse(text);
    case "text":
      return text;
  }
}

/** A default of the server's, as the form shows it. */
export function defaultText(option: Option, params: Record<string, unknown> | undefined): string {
  const value = params?.[option.default ?? option.name];
  if (value === undefined || value === null) return "";
  if (option.kind === "list" && Array.isArray(value)) return value.map((v) => String(v).replaceAll("\n", "\\n")).join("\n");
  if (typeof value === "number") return String(Number(value.toPrecision(6)));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
