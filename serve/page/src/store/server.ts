// What the server is and has: asked for at the start, and again while it cannot answer.
import { computed, signal } from "@preact/signals";
import { ApiError, getModels, getProps, keyWanted } from "../api/client";
import type { Model, Props } from "../api/types";

export type Connection = "connecting" | "ready" | "loading" | "locked" | "down";

export const connection = signal<Connection>("connecting");
export const models = signal<Model[]>([]);
export const props = signal<Props>({});

/** Tokens that a conversation may have; 0 if not known. */
export const contextSize = computed(() => props.value.default_generation_settings?.n_ctx ?? 0);

/** Whether the model takes pictures, and sounds. */
export const sees = computed(() => props.value.modalities?.vision === true);
export const hears = computed(() => props.value.modalities?.audio === true);

let timer: ReturnType<typeof setTimeout> | undefined;
let asked: string | undefined;

/** Asks for models and properties until both are there. */
export async function connect(model?: string): Promise<void> {
  clearTimeout(timer);
  try {
    models.value = await getModels();
    await describe(model ?? (models.value.length > 1 ? models.value[0].id : undefined), true);
    connection.value = "ready";
    keyWanted.value = false;
  } catch (error) {
    const status = error instanceof ApiError ? error.status : -1;
    connection.value = status === 401 || status === 403 ? "locked" : status === 503 ? "loading" : "down";
    if (connection.value !== "locked") timer = setTimeout(() => connect(model), connection.value === "loading" ? 1000 : 4000);
  }
}

/** Properties of a model; they follow the conversation's where the server has several. */
export async function describe(model: string | undefined, again = false): Promise<void> {
  if (!again && asked === model) return;
  asked = model;
  const found = await getProps(model);
  if (asked === model) props.value = found;
}

/** The same of a model that an answer has woken, where it had none yet. */
export function describeAwake() {
  if (!contextSize.value) describe(asked, true).catch(() => undefined);
}

/** A model's name without folder and ending. */
export function shortName(model: string): string {
  const file = model.replaceAll("\\", "/").split("/").pop()!;
  return file.replace(/\.gguf$/i, "") || model;
}
