import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { IconButton } from "./icons";

interface Props {
  title: string;
  class?: string;
  /** Called when it is to close; nothing: it stays until its work is done. */
  onClose?: () => void;
  /** Without a head. */
  bare?: boolean;
  children: ComponentChildren;
}

/** A window over the page. The browser keeps the focus in it, and gives it back. */
export function Dialog({ title, class: style = "", onClose, bare, children }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={style}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
      onMouseDown={(event) => event.target === element.current && onClose?.()}
    >
      <div class="window">
        {!bare && (
          <header>
            <h2>{title}</h2>
            {onClose && <IconButton icon="close" label="Close" onClick={onClose} />}
          </header>
        )}
        {children}
      </div>
    </dialog>
  );
}
