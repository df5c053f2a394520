// Builds the two pages into a folder: `node build.mjs [FOLDER]`, by default dist/. The same sources give the same bytes.
//
// Names are fixed, so that the server's table of files (../src/page.rs) changes only when a file comes or goes; every reference
// carries a hash of what it refers to, so that browsers may keep files for ever.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = process.argv[2] ?? join(here, "dist");
const modules = join(here, "node_modules");

/** `?` and a hash of a written file. */
const version = async (name) => {
  const hash = createHash("sha256").update(await readFile(join(out, name)));
  return "?" + hash.digest("hex").slice(0, 10);
};

const bundle = (entry, options = {}) =>
  build({
    entryPoints: [join(here, "src", entry)],
    outdir: out,
    bundle: true,
    minify: true,
    format: "esm",
    target: ["chrome111", "firefox114", "safari16.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
    ...options,
  });

/** Rare cuts of KaTeX's fonts: browsers make them from the regular ones. */
const LEFT_OUT = /KaTeX_(Fraktur-Bold|Caligraphic-Bold|SansSerif-Bold|SansSerif-Italic)\./;

/** Style sheets refer to fonts in `fonts/`, which are written here; only WOFF2 is kept. */
const fonts = {
  name: "fonts",
  setup(plugin) {
    plugin.onResolve({ filter: LEFT_OUT }, () => ({ path: "left-out", external: true }));
    plugin.onResolve({ filter: /\.(woff|ttf)$/ }, () => ({ path: "none", external: true }));
    plugin.onResolve({ filter: /\.woff2$/ }, async ({ path, resolveDir }) => {
      const name = join("fonts", basename(path));
      const from = path.startsWith(".") || path.startsWith("fonts/") ? join(resolveDir, path) : join(modules, path);
      await cp(from, join(out, name));
      return { path: "./" + name + (await version(name)), external: true };
    });
  },
};

/** Texts of the licences of all that is bundled. */
async function licences() {
  const names = ["preact", "@preact/signals", "@preact/signals-core", "marked", "dompurify", "highlight.js", "katex"];
  const parts = await Promise.all(
    [...names, "@fontsource-variable/inter"].map(async (name) => {
      // Of DOMPurify's two licences the shorter notice will do: the text of Apache's comes with this repository.
      if (name === "dompurify") return `${name}\n\nCopyright 2025 Dr.-Ing. Mario Heiderich, Cure53. Apache License 2.0.\n`;
      const file = (await readdir(join(modules, name))).find((f) => /^licen[sc]e/i.test(f));
      return `${name}\n\n${(await readFile(join(modules, name, file), "utf8")).trim()}\n`;
    }),
  );
  return parts.join("\n" + "-".repeat(80) + "\n\n");
}

await rm(out, { recursive: true, force: true });
await mkdir(join(out, "fonts"), { recursive: true });
await writeFile(join(out, "licences.txt"), await licences());
await cp(join(here, "src/icon.svg"), join(out, "icon.svg"));
await bundle("math.ts");
await bundle("code.ts");
await bundle("math.css", { plugins: [fonts] });
await bundle("style.css", { plugins: [fonts] });
// A declaration of a font lists its formats; those that were not kept must not be asked for.
for (const sheet of ["math.css", "style.css"]) {
  const text = await readFile(join(out, sheet), "utf8");
  const kept = text.replace(/@font-face\{[^}]*left-out[^}]*\}/g, "");
  await writeFile(join(out, sheet), kept.replace(/,url\((?:"none"|none)\)\s*format\("?(?:woff|truetype)"?\)/g, ""));
}
const parts = {};
for (const name of ["math.js", "math.css", "code.js"]) parts[name] = "./" + name + (await version(name));
await bundle("theme.ts", { format: "iife" });
// Both pages at once: what they share is a file of its own.
await bundle("app.tsx", {
  entryPoints: ["app.tsx", "status.tsx"].map((entry) => join(here, "src", entry)),
  define: { PARTS: JSON.stringify(parts) },
  splitting: true,
  chunkNames: "shared",
});
const shared = "./shared.js" + (await version("shared.js"));
for (const script of ["app.js", "status.js"]) {
  const text = await readFile(join(out, script), "utf8");
  await writeFile(join(out, script), text.replaceAll('"./shared.js"', JSON.stringify(shared)));
}
for (const page of ["index.html", "status.html"]) {
  let text = await readFile(join(here, "src", page), "utf8");
  for (const [reference, name] of text.matchAll(/page\/([a-z.]+)/g)) {
    text = text.replace(reference, reference + (await version(name)));
  }
  await writeFile(join(out, page), text);
}
