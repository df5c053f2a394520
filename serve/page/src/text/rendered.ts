// A text that grows, as elements that change as little as can be: blocks that are over stay as they are, and only the last ones are
// read and made again. A long answer so costs no more per piece than a short one.
import type { Token, Tokens } from "marked";
import { blocks, sanitized, toHtml } from "./markdown";
import { withCode, withFormulas } from "./parts";

interface Block {
  raw: string;
  nodes: ChildNode[];
  /** Set for code, whose element stays while it grows. */
  code?: { language: string; element: HTMLElement };
}

/** More of the text might still change these. */
const OPEN_BLOCKS = 2;
/** Longer code is not coloured while it grows. */
const COLOURED_WHILE_OPEN = 12_000;

export class Rendered {
  private blocks: Block[] = [];
  private text = "";

  constructor(private root: HTMLElement) {}

  /** Shows the text. `whole`: no more will come. */
  update(text: string, whole: boolean) {
    // Definitions of links count for the whole text, and a text that does not go on is another one.
    const again = !text.startsWith(this.text) || (whole && /^ {0,3}\[[^\]]+\]:/m.test(text));
    const kept = again ? 0 : Math.max(0, this.blocks.length - OPEN_BLOCKS);
    const length = this.blocks.slice(0, kept).reduce((sum, block) => sum + block.raw.length, 0);
    const tokens = blocks(text.slice(length));
    const old = again ? [] : this.blocks.slice(kept);
    if (again) this.root.replaceChildren();
    const made = tokens.map((token, i) => this.block(token, old[i], i === tokens.length - 1 && !whole));
    for (const block of old.slice(tokens.length)) block.nodes.forEach((node) => node.remove());
    this.blocks = [...this.blocks.slice(0, kept), ...made];
    this.text = text;
  }

  private block(token: Token, old: Block | undefined, open: boolean): Block {
    if (old && old.raw === token.raw && (open || !old.code)) return old;
    if (token.type === "code") {
      const language = ((token as Tokens.Code).lang ?? "").trim().split(/\s+/)[0];
      if (old?.code?.language === language) {
        setCode(old.code.element, (token as Tokens.Code).text, language, open);
        return { ...old, raw: token.raw };
      }
    }
    const fragment = sanitized(toHtml(token));
    decorate(fragment, open);
    const nodes = [...fragment.childNodes];
    const code = token.type === "code" ? fragment.querySelector<HTMLElement>("code") : null;
    const language = fragment.querySelector("[data-language]")?.getAttribute("data-language") ?? "";
    if (old?.nodes.length) {
      old.nodes[0].before(fragment);
      old.nodes.forEach((node) => node.remove());
    } else {
      this.root.append(fragment);
    }
    return { raw: token.raw, nodes, code: code ? { language, element: code } : undefined };
  }
}

/** Gives blocks of code their heads, and sets formulas. */
function decorate(fragment: DocumentFragment, open: boolean) {
  for (const pre of fragment.querySelectorAll("pre")) {
    const code = pre.querySelector("code");
    if (!code) continue;
    const language = pre.getAttribute("data-language") ?? "";
    const frame = document.createElement("figure");
    frame.className = "code";
    pre.replaceWith(frame);
    pre.tabIndex = 0; // it scrolls, so keys must reach it
    frame.append(head(language, code), pre);
    setCode(code, code.textContent ?? "", language, open);
  }
  const formulas = [...fragment.querySelectorAll<HTMLElement>(".formula")];
  if (!formulas.length) return;
  withFormulas(({ setFormula }) => {
    for (const element of formulas) setFormula(element, element.textContent ?? "", element.classList.contains("display"));
  });
}

function head(language: string, code: HTMLElement): HTMLElement {
  const bar = document.createElement("figcaption");
  const name = document.createElement("span");
  name.textContent = language || "text";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    button.textContent = (await copy(code.textContent ?? "")) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = "Copy"), 1600);
  });
  bar.append(name, button);
  return bar;
}

function setCode(element: HTMLElement, text: string, language: string, open: boolean) {
  element.textContent = text;
  if (!language || (open && text.length > COLOURED_WHILE_OPEN) || text.length > 300_000) return;
  withCode(({ colour }) => {
    if (element.textContent !== text) return; // it grew while the part was fetched
    const html = colour(text, language.toLowerCase());
    if (html !== undefined) element.replaceChildren(sanitized(html));
  });
}

/** Copies to the clipboard; false where the browser forbids it. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Where a page is not served over TLS or from this machine there is only the old way.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "hidden";
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}
