// Markdown to HTML, with formulas, in the flavour that models write.
//
// Three walls stand between a model's text and the page: HTML in it is text, but for a few tags without attributes; what comes out
// is sanitized; and the page's security policy forbids scripts, styles and requests that are not the server's own.
import DOMPurify from "dompurify";
import { Marked, type Token, type TokenizerAndRendererExtension, type Tokens } from "marked";

/** Tags that may stand in the text, without attributes; as they are once they are escaped. */
const TAGS = /&lt;(\/?(?:b|br|del|details|em|i|ins|kbd|mark|s|small|strong|sub|summary|sup|u))\s*\/?&gt;/gi;

export function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

const formula = (tex: string, display: boolean) =>
  `<span class="formula${display ? " display" : ""}">${escaped(tex.trim())}</span>`;

/** `$$…$$` and `\[…\]` on lines of their own. */
const displayFormula: TokenizerAndRendererExtension = {
  name: "displayFormula",
  level: "block",
  start: (source) => source.match(/(?:^|\n) {0,3}(?:\$\$|\\\[)/)?.index,
  tokenizer(source) {
    const found = /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n+|$)/.exec(source);
    return found ? { type: "displayFormula", raw: found[0], tex: found[1] ?? found[2] } : undefined;
  },
  renderer: (token) => `<p class="formulas">${formula(token.tex, true)}</p>`,
};

/** `$…$` where that is no price, `\(…\)`, and the forms above within a line. */
const inlineFormula: TokenizerAndRendererExtension = {
  name: "inlineFormula",
  level: "inline",
  start: (source) => source.match(/\$|\\\(|\\\[/)?.index,
  tokenizer(source) {
    const display = /^(?:\$\$([^$]+?)\$\$|\\\[([\s\S]+?)\\\])/.exec(source);
    if (display) return { type: "inlineFormula", raw: display[0], tex: display[1] ?? display[2], display: true };
    const inline = /^(?:\$(?![\s$])((?:\\[\s\S]|[^$\\\n])+?)(?<!\s)\$(?![\d$])|\\\(([\s\S]+?)\\\))/.exec(source);
    return inline ? { type: "inlineFormula", raw: inline[0], tex: inline[1] ?? inline[2], display: false } : undefined;
  },
  renderer: (token) => formula(token.tex, token.display),
};

const marked = new Marked({
  gfm: true,
  extensions: [displayFormula, inlineFormula],
  renderer: {
    html({ text, block }: Tokens.HTML | Tokens.Tag) {
      const html = escaped(text).replace(TAGS, "<$1>");
      return block ? `<div class="plain">${html}</div>` : html;
    },
    // A picture would be fetched from its host, which learns who reads this; a link waits for a click.
    image({ href, text }: Tokens.Image) {
      return `<a href="${escaped(href)}">${escaped(text || href)}</a>`;
    },
    code({ text, lang }: Tokens.Code) {
      const language = (lang ?? "").trim().split(/\s+/)[0];
      return `<pre data-language="${escaped(language)}"><code>${escaped(text)}</code></pre>`;
    },
    table(token: Tokens.Table) {
      const cell = ({ align, tokens }: Tokens.TableCell, tag: string) =>
        `<${tag}${align ? ` align="${align}"` : ""}>${this.parser.parseInline(tokens)}</${tag}>`;
      const row = (cells: Tokens.TableCell[], tag: string) => `<tr>${cells.map((c) => cell(c, tag)).join("")}</tr>`;
      const rows = token.rows.map((cells) => row(cells, "td")).join("");
      return `<div class="table"><table><thead>${row(token.header, "th")}</thead><tbody>${rows}</tbody></table></div>`;
    },
  },
});

/** The text's blocks, in order; their `raw` joined are the text. */
export function blocks(text: string): Token[] {
  return marked.lexer(text);
}

export function toHtml(token: Token): string {
  return marked.parser([token]);
}

const ALLOWED_TAGS = (
  "a b blockquote br code del details div em h1 h2 h3 h4 h5 h6 hr i input ins kbd li mark ol p pre s small span strong sub summary " +
  "sup table tbody td th thead tr u ul"
).split(" ");
const ALLOWED_ATTR = ["align", "checked", "class", "data-language", "disabled", "href", "start", "title", "type"];

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  // Lists of tasks have check boxes; no other field comes from a text.
  if (node.tagName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
});

/** HTML as elements, without anything that runs, is fetched or may be filled in. */
export function sanitized(html: string): DocumentFragment {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS,
    ALLOWED_ATTR,
    ADD_URI_SAFE_ATTR: ["align", "checked", "data-language", "disabled", "start", "type"], // whose values are no addresses
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#)/i,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}
