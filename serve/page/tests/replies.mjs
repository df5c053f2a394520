// What the fake server says.

const words = (text) => text.match(/\S+\s*|\s+/g) ?? [];
const content = (text) => words(text).map((content) => ({ content }));

export const MARKDOWN = `## A hash table

It keeps **keys** and *values* in buckets; a key's bucket is found by \`hash(key) % buckets\`, so that a look-up takes the same time however many there are.

\`\`\`python
class Table:
    """Open addressing, linear probing."""

    def __init__(self, size: int = 8):
        self.slots = [None] * size

    def put(self, key, value):
        i = hash(key) % len(self.slots)
        while self.slots[i] is not None and self.slots[i][0] != key:
            i = (i + 1) % len(self.slots)  # the next one
        self.slots[i] = (key, value)
\`\`\`

With load $\\alpha = n/m$, an unsuccessful search looks at about

$$
\\frac{1}{2}\\left(1 + \\frac{1}{(1-\\alpha)^2}\\right)
$$

slots. Half full that is \\(2.5\\), and it costs $5 or $6 to try.

| load | hit | miss |
|:--|--:|--:|
| 0.5 | 1.5 | 2.5 |
| 0.9 | 5.5 | 50.5 |

1. Choose a size that is a power of two.
2. Grow at three quarters:
   - make a table twice as large,
   - put every pair into it.

> Robin Hood hashing keeps the longest search short.
`;

export const HOSTILE = `<script>window.hacked = 1</script>
<img src=x onerror="window.hacked = 2">
<svg onload="window.hacked = 3"><animate onbegin="window.hacked = 4" attributeName="x"></svg>
<iframe srcdoc="<script>parent.hacked = 5</script>"></iframe>
[click](javascript:window.hacked=6) [data](data:text/html,<script>parent.hacked=7</script>)
![picture](http://foreign.example/pixel.png)
<a href="javascript:window.hacked=8" onclick="window.hacked=9">link</a>
<style>body { display: none }</style><form action="http://foreign.example/"><input name="x"><button>send</button></form>
$\\href{javascript:window.hacked=10}{x}$ $\\includegraphics{http://foreign.example/a.png}$ $\\htmlData{a=b}{y}$
<details ontoggle="window.hacked=11" open><summary>s</summary></details><math><mtext><table><mglyph><style><img src onerror="window.hacked=12">

\`\`\`html"><img src=x onerror=window.hacked=13>
<script>window.hacked = 14</script>
\`\`\`

[ref]: javascript:window.hacked=15
[ref]
The end of it.`;

/** The reply to a request: deltas with what is to be between them, or a refusal. */
export function replyTo({ messages, max_tokens }, count) {
  const last = messages.at(-1);
  const said = typeof last.content === "object" ? last.content?.findLast((part) => part.type === "text")?.text ?? "" : String(last.content ?? "");
  if (last.role === "tool") return { deltas: content(`The function says: ${said}.`) };
  if (last.role === "assistant") return { deltas: content("and here it goes on.") };
  if (/hostile/.test(said)) return { deltas: content(HOSTILE) };
  if (/hash table|markdown/.test(said)) return { deltas: content(MARKDOWN), pause: 4 };
  if (/think/.test(said)) {
    const reasoning = words("The user wants a thought.\n\nSo I weigh **this** against that, and then decide.").map((reasoning_content) => ({ reasoning_content }));
    return { deltas: [...reasoning, ...content("I have thought about it: yes.")], pause: 20 };
  }
  if (/weather/.test(said)) {
    const call = (index, fields) => ({ tool_calls: [{ index, ...fields }] });
    const deltas = [
      call(0, { id: "call_1", type: "function", function: { name: "weather", arguments: "" } }),
      ...['{"city"', ': "Bon', 'n", "days"', ": 3}"].map((text) => call(0, { function: { arguments: text } })),
    ];
    return { deltas, finish: "tool_calls", pause: 10 };
  }
  if (/this picture/.test(said)) {
    return { deltas: content("A **mountain** stands behind a lake, and the sun is low:\n\n- the sky is orange\n- the water is still, and shows the mountain once more"), pause: 25 };
  }
  if (/refuse/.test(said) && count % 2 === 1) return { status: 400, message: "the request exceeds the available context size", type: "exceed_context_size_error" };
  if (/break/.test(said)) return { deltas: [...content("This begins well"), "break"] };
  if (/device/.test(said)) return { deltas: [...content("This begins well"), "error"] };
  if (/progress/.test(said)) return { progress: [0, 25, 50, 75, 100], deltas: content("The prompt was long.") };
  if (/slow/.test(said)) return { deltas: content("A slow answer of many words. ".repeat(60)), pause: 25 };
  const long = /long (\d+)/.exec(said);
  if (long) return { deltas: longText(Number(long[1])) };
  const short = `Answer ${count} to: ${said}`;
  return { deltas: content(short).slice(0, max_tokens), finish: max_tokens ? "length" : "stop" };
}

/** Paragraphs, lists and code of about so many tokens. */
function longText(tokens) {
  const parts = [];
  for (let i = 1; parts.length < tokens; i++) {
    parts.push(...words(`### Part ${i}\n\nSome words of **weight** and some \`code\` that stand in a paragraph which is as long as paragraphs are, with a formula $x_${i}^2$ in it.\n\n- one\n- two\n\n`));
    parts.push(...words("```rust\nfn main() {\n    println!(\"{}\", 42);\n}\n```\n\n"));
  }
  return [...parts.slice(0, tokens - 2), "\n\n", "The end."].map((content) => ({ content }));
}
