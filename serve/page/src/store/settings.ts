// What the user set: kept in the browser, in one entry.
import { effect, signal } from "@preact/signals";
import type { Overrides } from "./sampling";

export interface Settings {
  overrides: Overrides;
  /** System prompt of new conversations. */
  system: string;
  sidebar: boolean;
  /** Whether reasoning stands open. */
  showReasoning: boolean;
}

const KEY = "pumex.settings";
const DEFAULTS: Settings = { overrides: {}, system: "", sidebar: true, showReasoning: false };

function stored(): Settings {
  try {
    const read = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return { ...DEFAULTS, ...read, overrides: { ...read.overrides } };
  } catch {
    return DEFAULTS;
  }
}

export const settings = signal<Settings>(stored());

export function set(fields: Partial<Settings>) {
  settings.value = { ...settings.value, ...fields };
}

effect(() => {
  const text = JSON.stringify(settings.value);
  try {
    localStorage.setItem(KEY, text);
  } catch {
    // then they hold for this visit
  }
});
