// Prometheus's text format, as far as a page shows it.

export interface Metric {
  name: string;
  help: string;
  type: string;
  /** Labels as they are written, and value. */
  samples: { labels: string; value: number }[];
}

export function parseMetrics(text: string): Map<string, Metric> {
  const metrics = new Map<string, Metric>();
  const of = (name: string) => {
    const metric = metrics.get(name) ?? { name, help: "", type: "untyped", samples: [] };
    metrics.set(name, metric);
    return metric;
  };
  for (const line of text.split("\n")) {
    const comment = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line);
    if (comment) {
      const [, kind, name, rest] = comment;
      if (kind === "HELP") of(name).help = rest;
      else of(name).type = rest.trim();
      continue;
    }
    const sample = /^([a-zA-Z_:][\w:]*)(\{.*\})?\s+(\S+)/.exec(line);
    if (sample) of(sample[1]).samples.push({ labels: sample[2] ?? "", value: Number(sample[3]) });
  }
  for (const [name, metric] of metrics) if (!metric.samples.length) metrics.delete(name);
  return metrics;
}

/** Sum over a metric's labels, of the first of the names that is there. */
export function total(metrics: Map<string, Metric>, ...names: string[]): number | undefined {
  for (const name of names) {
    const metric = metrics.get(name);
    if (metric) return metric.samples.reduce((sum, s) => sum + s.value, 0);
  }
  return undefined;
}
