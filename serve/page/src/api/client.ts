// Requests to the server that the page came from, and to no other.
import { signal } from "@preact/signals";
import type { Model, Props } from "./types";

const KEY = "pumex.key";

/** A refusal by the server, or no answer from it (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly type = "",
  ) {
    super(message);
  }
}

/** Whether the server asked for a key that the page does not have. */
export const keyWanted = signal(false);

export function storedKey(): string {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export function storeKey(key: string) {
  try {
    if (key) localStorage.setItem(KEY, key);
    else localStorage.removeItem(KEY);
  } catch {
    // storage may be forbidden; then the key is asked for again
  }
}

/** Fetches a path relative to the page; any status but 2xx is an `ApiError`. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = storedKey();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, cache: "no-store" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The server cannot be reached.");
  }
  if (response.ok) return response;
  const failure = await refusal(response);
  if (failure.status === 401) keyWanted.value = true;
  throw failure;
}

async function refusal(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  const [message, type] = errorOf(text) ?? [text.slice(0, 300) || `HTTP ${response.status}`, ""];
  const wait = response.headers.get("Retry-After");
  const busy = response.status === 429 || response.status === 503;
  return new ApiError(response.status, busy && wait ? `${message} Try again in ${wait} s.` : message, type);
}

/** Message and type of `{"error": {"message", "type"}}`, the shape of OpenAI and llama.cpp. */
export function errorOf(text: string): [string, string] | undefined {
  try {
    const { error } = JSON.parse(text);
    if (typeof error === "string") return [error, ""];
    if (error && typeof error.message === "string") return [error.message, String(error.type ?? "")];
  } catch {
    // not JSON
  }
  return undefined;
}

export async function getProps(model?: string): Promise<Props> {
  const query = model ? `?model=${encodeURIComponent(model)}` : "";
  return (await request(`props${query}`)).json();
}

export async function getModels(): Promise<Model[]> {
  const { data } = await (await request("v1/models")).json();
  return Array.isArray(data) ? data : [];
}
