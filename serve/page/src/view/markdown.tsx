import { useLayoutEffect, useRef } from "preact/hooks";
import { Rendered } from "../text/rendered";

/** A text in markdown. While it grows it is shown anew as often as that is cheap: what a round takes decides how long the next waits. */
export function Markdown({ text, whole }: { text: string; whole: boolean }) {
  const root = useRef<HTMLDivElement>(null);
  const state = useRef<{ rendered?: Rendered; timer: number; next: number; latest: string; whole: boolean }>({
    timer: 0,
    next: 0,
    latest: "",
    whole: false,
  });

  useLayoutEffect(() => {
    const s = state.current;
    s.rendered ??= new Rendered(root.current!);
    s.latest = text;
    s.whole = whole;
    const show = () => {
      s.timer = 0;
      const begin = performance.now();
      s.rendered!.update(s.latest, s.whole);
      const end = performance.now();
      s.next = end + Math.min(1000, 5 * (end - begin));
    };
    const wait = whole ? 0 : s.next - performance.now();
    if (wait <= 0) {
      clearTimeout(s.timer);
      show();
    } else {
      s.timer ||= window.setTimeout(show, wait);
    }
  }, [text, whole]);

  useLayoutEffect(() => () => clearTimeout(state.current.timer), []);

  return <div class={`markdown ${whole ? "" : "growing"}`} ref={root} />;
}
