import { SECONDS } from "../store/watch";

/** A line of the last two minutes, on a ground that is 0. `most`: the top, where that is known. */
export function Sparkline({ values, most }: { values: number[]; most?: number }) {
  const [width, height] = [SECONDS - 1, 36];
  const top = Math.max(most ?? 0, ...values, 1e-9) * (most ? 1 : 1.1);
  const first = SECONDS - values.length;
  const points = values.map((v, i) => `${first + i},${(height - 1 - (v / top) * (height - 2)).toFixed(2)}`);
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      {points.length > 1 && <polygon points={`${first},${height} ${points.join(" ")} ${width},${height}`} />}
      {points.length > 1 && <polyline points={points.join(" ")} vector-effect="non-scaling-stroke" />}
    </svg>
  );
}
