import { signal } from "@preact/signals";
import { applyTheme, isDark, onSystemTheme, storedTheme, storeTheme, type Theme } from "../store/theme";
import { IconButton } from "./icons";

/** What was chosen, and whether that is dark now. */
export const theme = signal<{ chosen: Theme; dark: boolean }>(read());

function read() {
  const chosen = storedTheme();
  return { chosen, dark: isDark(chosen) };
}

onSystemTheme(() => (theme.value = read()));

export function chooseTheme(chosen: Theme) {
  storeTheme(chosen);
  applyTheme(chosen);
  theme.value = { chosen, dark: isDark(chosen) };
}

/** Switches between light and dark. The choice of the system's own is in the settings. */
export function ThemeButton() {
  const { dark } = theme.value;
  const label = dark ? "Light theme" : "Dark theme";
  return <IconButton icon={dark ? "sun" : "moon"} label={label} onClick={() => chooseTheme(dark ? "light" : "dark")} />;
}
