// A picture or a sound of a message.
import type { Attachment } from "../store/conversation";
import { Icon } from "./icons";
import { size } from "./message";

/** Bytes of what a data: URL holds. */
const bytes = (url: string) => Math.floor((url.length - url.indexOf(",") - 1) * 0.75);

export function Medium({ file }: { file: Attachment }) {
  if (file.kind === "image") return <img class="picture" src={file.url} alt={file.name} title={file.name} />;
  return (
    <span class="sound">
      <Icon name="pulse" />
      <span>{file.name}</span>
      <span class="faint">{size(bytes(file.url ?? ""))}</span>
    </span>
  );
}
