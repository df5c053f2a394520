// Runs before the page is painted: a theme that was chosen holds from the first frame.
import { applyTheme, onSystemTheme, storedTheme } from "./store/theme";

applyTheme(storedTheme());
onSystemTheme(() => applyTheme(storedTheme()));
