// Light, dark, or as the system has it. The style sheet knows light and dark; this finds out which.

export type Theme = "system" | "light" | "dark";

const KEY = "pumex.theme";
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

export function storedTheme(): Theme {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "light" || theme === "dark" ? theme : "system";
  } catch {
    return "system"; // storage may be forbidden
  }
}

export function storeTheme(theme: Theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // then it holds for this visit
  }
}

/** Whether the theme is dark now. */
export function isDark(theme: Theme): boolean {
  return theme === "system" ? systemIsDark.matches : theme === "dark";
}

export function applyTheme(theme: Theme) {
  document.documentElement.dataset.theme = isDark(theme) ? "dark" : "light";
}

/** Calls back when the system's theme changes. */
export function onSystemTheme(changed: () => void) {
  systemIsDark.addEventListener("change", changed);
}
