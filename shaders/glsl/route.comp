// logits [n, experts] -> each row's experts: ids, weights (times down's scales), gate's scales, up's scales [n, 4 * used].
// One row per workgroup: the largest is sought `used` times. The first of equal logits wins.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint EXPERTS = 1;
layout(constant_id = 2) const uint USED = 1;
layout(push_constant) uniform Push {
    F32 logits;
    F32 route;
    F32 gate_scale, up_scale, down_scale; // [experts] each, if their bits are set in flags
    Step params;
    uint flags;
    float scale; // what the weights sum up to
};
shared float left[EXPERTS];
shared uint id[USED];
shared float logit[USED];

float scale_of(F32 scales, uint bit, uint expert) { return (flags & bit) != 0 ? scales.v[expert] : 1.0; }

void main() {
    uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
    if (row >= params.w[STEP_ROWS]) { // rows that the recording has room for, but not the step: any expert will do
        for (uint k = t; k < USED; k += gl_WorkGroupSize.x) route.v[row * 4 * USED + k] = uintBitsToFloat(0);
        return;
    }
    for (uint i = t; i < EXPERTS; i += gl_WorkGroupSize.x) left[i] = logits.v[row * EXPERTS + i];
    float all = 0.0, most = 0.0;
    for (uint k = 0; k < USED; k++) {
        float best = -3.4e38;
        for (uint i = t; i < EXPERTS; i += gl_WorkGroupSize.x) best = max(best, left[i]);
        best = workgroup_max(best);
        float at = -1e9;
        for (uint i = t; i < EXPERTS; i += gl_WorkGroupSize.x) {
            if (left[i] == best) at = max(at, -float(i));
            if (k == 0) all += exp(left[i] - best);
        }
        uint expert = min(uint(-workgroup_max(at)), EXPERTS - 1);
        if (k == 0) {
            most = best;
            all = workgroup_sum(all);
        }
        if (t == expert % gl_WorkGroupSize.x) left[expert] = -3.4e38;
        if (t == 0) {
            id[k] = expert;
            logit[k] = best;
        }
    }
    barrier();
    float sum = 0.0;
    for (uint k = 0; k < USED; k++) sum += exp(logit[k] - most) / all;
    sum = max(sum, 6.103515625e-5);
    for (uint k = t; k < USED; k += gl_WorkGroupSize.x) {
        uint at = row * 4 * USED + k;
        route.v[at] = uintBitsToFloat(id[k]);
        route.v[at + USED] = exp(logit[k] - most) / all / sum * scale * scale_of(down_scale, 4, id[k]);
        route.v[at + 2 * USED] = scale_of(gate_scale, 1, id[k]);
        route.v[at + 3 * USED] = scale_of(up_scale, 2, id[k]);
    }
}
