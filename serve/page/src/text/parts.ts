// The two large parts of the page, fetched when a text first needs them: colours for code, and formulas.
declare const PARTS: Record<"math.js" | "math.css" | "code.js", string>;

type Code = typeof import("../code");
type Formulas = typeof import("../math");

let code: Code | undefined;
let formulas: Formulas | undefined;
let codeAsked: Promise<Code | undefined> | undefined;
let formulasAsked: Promise<Formulas | undefined> | undefined;

const address = (name: keyof typeof PARTS) => new URL(PARTS[name], import.meta.url).href;

/** Calls back with the part: at once if it is there, later if not, never if it cannot be had. */
export function withCode(use: (part: Code) => void) {
  if (code) return use(code);
  codeAsked ??= import(address("code.js")).then((part) => (code = part)).catch(() => (codeAsked = undefined));
  void codeAsked.then((part) => part && use(part));
}

export function withFormulas(use: (part: Formulas) => void) {
  if (formulas) return use(formulas);
  formulasAsked ??= Promise.all([import(address("math.js")), styled(address("math.css"))])
    .then(([part]) => (formulas = part))
    .catch(() => (formulasAsked = undefined));
  void formulasAsked.then((part) => part && use(part));
}

function styled(href: string): Promise<void> {
  return new Promise((resolve) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = href;
    link.onload = link.onerror = () => resolve();
    document.head.append(link);
  });
}
