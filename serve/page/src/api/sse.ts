// Server-sent events, read from the body of a response.

/** Yields the data of each event, as soon as it is whole. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const parts = rest.split(/\r?\n\r?\n/);
      rest = done ? "" : parts.pop()!;
      for (const part of parts) {
        const data = dataOf(part);
        if (data !== undefined) yield data;
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => undefined); // whoever stops reading ends the request
  }
}

/** The lines of data of one event, joined; none for comments, which keep a connection open. */
function dataOf(event: string): string | undefined {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.length ? lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n") : undefined;
}
