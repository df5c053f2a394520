// Pictures and sounds of messages: files of the browser made ready to be sent.
import type { Attachment } from "./conversation";

/** What the server decodes; other pictures are drawn anew. */
const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"];
const SOUNDS: Record<string, string> = {
  "audio/wav": "wav",
  "audio/wave": "wav",
  "audio/x-wav": "wav",
  "audio/vnd.wave": "wav",
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3",
  "audio/flac": "flac",
  "audio/x-flac": "flac",
  "audio/ogg": "ogg",
};
/** Larger pictures are drawn anew, no wider or higher than this: models see no more of them. */
const LARGE_PICTURE = 1 << 20;
const MOST_PIXELS = 2048;
const LARGEST_SOUND = 10 << 20;

/** Whether a file says that it is a picture, or a sound. */
export function kindOf(file: File): "image" | "audio" | undefined {
  const kind = file.type.split("/")[0];
  return file.type !== "image/svg+xml" && (kind === "image" || kind === "audio") ? kind : undefined;
}

/** A picture or a sound as it is kept and sent; what cannot be sent is an error that says why. */
export async function read(file: File, kind: "image" | "audio"): Promise<Attachment> {
  if (kind === "image") return { name: file.name, text: "", kind, url: await picture(file) };
  const type = file.type.split(";")[0];
  if (!SOUNDS[type]) throw new Error(`${file.name} is no WAV, MP3, FLAC or Ogg.`);
  if (file.size > LARGEST_SOUND) throw new Error(`${file.name} is over ${LARGEST_SOUND >> 20} MB.`);
  return { name: file.name, text: "", kind, url: await dataUrl(file), format: SOUNDS[type] };
}

async function picture(file: File): Promise<string> {
  let drawn: ImageBitmap;
  try {
    drawn = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name} is no picture that this browser can read.`);
  }
  try {
    if (PICTURES.includes(file.type) && file.size <= LARGE_PICTURE) return await dataUrl(file);
    const scale = Math.min(1, MOST_PIXELS / Math.max(drawn.width, drawn.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(drawn.width * scale));
    canvas.height = Math.max(1, Math.round(drawn.height * scale));
    const context = canvas.getContext("2d")!;
    context.fillStyle = "#fff"; // JPEG has no transparency
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(drawn, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/jpeg", 0.9);
  } finally {
    drawn.close();
  }
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

/** Whether a text is a picture or a sound that may be shown and sent: nothing that is fetched from elsewhere. */
export function isOwn(url: string, kind: "image" | "audio"): boolean {
  return url.startsWith(`data:${kind}/`) && !url.startsWith("data:image/svg");
}
