// Logits of a row -> its experts. All threads put logits and choose. Needs EXPERTS, USED, the route, its scales and `flags`.
#include "lib/top_k_softmax.glsl"
float scale_of(F32 scales, uint bit, uint expert) { return (flags & bit) != 0 ? scales.v[expert] : 1.0; }

void choose(uint row) {
    uint t = gl_LocalInvocationID.x;
    rank_experts();
    for (uint k = t; k < USED; k += gl_WorkGroupSize.x) {
        uint at = row * 4 * USED + k;
        route.v[at] = uintBitsToFloat(chosen[k]);
        route.v[at + USED] = weight_of[k] / weights_sum * scale * scale_of(down_scale, 4, chosen[k]);
        route.v[at + 2 * USED] = scale_of(gate_scale, 1, chosen[k]);
        route.v[at + 3 * USED] = scale_of(up_scale, 2, chosen[k]);
    }
}
