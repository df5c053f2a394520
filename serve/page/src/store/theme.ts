// Light, dark, or as the system has it.

export type Theme = "system" | "light" | "dark";

const KEY = "pumex.theme";

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

/** The style sheet has the system's theme where the attribute is missing. */
export function applyTheme(theme: Theme) {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
}
