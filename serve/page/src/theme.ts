// Runs before the page is painted: a theme that was chosen holds from the first frame.
import { applyTheme, storedTheme } from "./store/theme";

applyTheme(storedTheme());
