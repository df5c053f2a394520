// A norm of each group of columns of a row, by NORM_*, times weights, plus biases, gated if there is a gate: a workgroup each, which
// has all of its columns in registers.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KIND = 0;
layout(constant_id = 2) const uint WEIGHTED = 0;
layout(constant_id = 3) const uint BIASED = 0;
layout(constant_id = 4) const uint OUTPUT_ROWS = 0; // 1: a row for each output row, of x's row of the same number; 2: of the step's row
layout(constant_id = 5) const uint LEN = 4;         // columns of a group
layout(constant_id = 6) const uint FOURS = 0;       // 1: four columns at a time
layout(constant_id = 7) const uint GATED = 0;       // 1: afterwards, 2: first
layout(constant_id = 8) const uint ACT = 0;         // of the gate
#include "push/normalize.glsl"
#include "lib/act.glsl"
const uint WIDE = FOURS == 1 ? 4 : 1;
const uint EACH = (LEN + WIDE * gl_WorkGroupSize.x - 1) / (WIDE * gl_WorkGroupSize.x); // of a thread
vec4 held[EACH];

uint column(uint e) { return (gl_LocalInvocationID.x + e * gl_WorkGroupSize.x) * WIDE; }
vec4 four(F32 from, uint at) { return FOURS == 1 ? F32x4(uvec2(from)).v[at / 4] : vec4(from.v[at], 0.0, 0.0, 0.0); }
vec4 gates(uint at) {
    const vec4 z = four(gate, at);
    return vec4(acted(ACT, z.x, vec4(0.0)), acted(ACT, z.y, vec4(0.0)), acted(ACT, z.z, vec4(0.0)), acted(ACT, z.w, vec4(0.0)));
}

void main() {
    const uint row = gl_WorkGroupID.x, g = gl_WorkGroupID.y;
    if (row >= params.w[OUTPUT_ROWS > 0 ? STEP_OUTPUTS : STEP_ROWS]) return;
    const uint from = (OUTPUT_ROWS == 2 ? step_output(params, row) : row) * x_width + g * x_stride;
    const uint gate_from = row * gate_width + g * gate_stride;
    float sum = 0.0, mean = 0.0;
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        held[e] = column(e) < LEN ? four(x, from + column(e)) : vec4(0.0);
        if (GATED == 2 && column(e) < LEN) held[e] *= gates(gate_from + column(e));
    }
    if (KIND == NORM_LAYER) {
        [[unroll]] for (uint e = 0; e < EACH; e++) sum += held[e].x + held[e].y + held[e].z + held[e].w;
        mean = workgroup_sum(sum) / float(LEN);
        sum = 0.0;
        [[unroll]] for (uint e = 0; e < EACH; e++) {
            if (column(e) < LEN) held[e] -= FOURS == 1 ? vec4(mean) : vec4(mean, 0.0, 0.0, 0.0);
        }
    }
    [[unroll]] for (uint e = 0; e < EACH; e++) sum += dot(held[e], held[e]);
    sum = workgroup_sum(sum);
    float by = 1.0 / sqrt(sum / float(LEN) + eps);
    if (KIND == NORM_L2) by = 1.0 / max(sqrt(sum), eps);
    if (KIND == NORM_UNIT) by = 1.0 / sqrt(sum + eps);
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint i = column(e), at = row * y_width + g * y_stride + i;
        if (i >= LEN) continue;
        vec4 v = held[e] * by;
        if (WEIGHTED == 1) v *= four(weight, g * LEN % weights + i);
        if (BIASED == 1) v += four(bias, g * LEN % biases + i);
        if (GATED == 1) v *= gates(gate_from + i);
        if (FOURS == 1) F32x4(uvec2(y)).v[at / 4] = v;
        else y.v[at] = v.x;
    }
}
