// RoPE of the first `dims` columns of groups, which may come from elsewhere, times `magnitude`, and the first `len` columns times a
// factor that grows with the position: a thread for each pair, then one for each column that is only scaled.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint NEOX = 0;     // 1: rotates halves, 0: neighbours
layout(constant_id = 2) const uint BACK = 0;     // 1: rotates back
layout(constant_id = 3) const uint TEMPERED = 0; // 1: there is such a factor
#include "push/rotate.glsl"
#include "lib/rope.glsl"
#include "lib/act.glsl"
#include "lib/streams.glsl"

void main() {
    const uint pairs = dims / 2, items = pairs + (TEMPERED == 1 && len > dims ? len - dims : 0);
    const uint row = gl_WorkGroupID.y, at = gl_GlobalInvocationID.x;
    if (row >= params.w[STEP_ROWS] || items == 0 || at >= groups * items) return;
    const uint to = row * width + at / items * stride, in_at = row * from_width + at / items * from_stride;
    const uint i = at % items, pos = step_rope(params, row) / every * every;
    float by = 1.0;
    if (TEMPERED == 1) by = 1.0 + temper_scale * log_1_plus(floor((float(pos) + temper_offset) / temper_floor));
    if (i >= pairs) {
        x.v[to + i + pairs] = from.v[in_at + i + pairs] * by;
        return;
    }
    const uint a = NEOX == 1 ? i : 2 * i, b = NEOX == 1 ? i + pairs : a + 1;
    const float freq = BACK == 1 ? -inv_freq.v[i] : inv_freq.v[i];
    const uint own = rope_pos(row, i) / every * every;
    const vec2 turned = rotated(vec2(from.v[in_at + a], from.v[in_at + b]), own, freq) * magnitude;
    x.v[to + a] = turned.x * (a < len ? by : 1.0);
    x.v[to + b] = turned.y * (b < len ? by : 1.0);
}
