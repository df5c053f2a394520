// The part of the page that sets formulas; it is fetched when the first one is met.
import katex from "katex";

/** Sets TeX into an element; what cannot be set stands there as it is written. */
export function setFormula(element: HTMLElement, tex: string, display: boolean) {
  try {
    katex.render(tex, element, {
      displayMode: display,
      throwOnError: true,
      strict: "ignore",
      trust: false, // no links, no images, no attributes
      maxExpand: 500,
      maxSize: 40,
      output: "htmlAndMathml",
    });
  } catch {
    element.textContent = tex;
    element.classList.add("unset");
  }
}
